"""Checks, before the first shard, that captions and json names are where a predicate looks for them."""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import fields, replace
from itertools import islice
from typing import NamedTuple

from wdsflow.expressions.errors import nearest
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.predicates.sample_facts import InJson, JsonNumber, JsonTextFact
from wdsflow.filtering.recipe.recipe import Recipe, canonical, recorded
from wdsflow.shards.caption_field import CaptionField
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard import Shard
from wdsflow.shards.short_look import some_of
from wdsflow.shards.source.opening import open_source
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.model.model_score import BatchScore
from wdsflow.stages.scores.sample_fields import CAPTIONS, parse_captions
from wdsflow.stages.scores.sample_view import View, ViewOptions
from wdsflow.text.words import how_many

from .samples import RejectedSample, ShardView, Views

_NO_VALUE = frozenset({"no-json", "no-value", "not-a-number", "not-text"})
# Searched levels of nested objects, and names.
_DEEPEST, _MOST_NAMES = 4, 1_000
# Names that a message lists.
_LISTED = 8
_OF_KIND: dict[type, type[InJson]] = {int: JsonNumber, float: JsonNumber, str: JsonTextFact}
_UNREAD: dict[type, str] = {
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_KIND = {"json_number": "number", "json_text": "text"}


class FoundName(NamedTuple):
    """A name in json that may be meant, the score that reads it, and how many of the checked samples have it."""

    score: str
    path: str
    there: int
    samples: int

    def __str__(self) -> str:
        have = f"{self.there:,} of {self.samples:,} checked samples have a {_KIND[self.score]} {self.path!r}"
        return f"{have}: {self.score}({self.path!r})"


class Looked(NamedTuple):
    """The number of samples searched for a name, and whether these are all."""

    samples: int
    shards: int
    every: bool

    @property
    def none(self) -> str:
        """The subject of the message."""
        return "no sample" if self.every else "none of the checked samples"


class NoJsonValue(ValueError):
    """No sample has the value of a score of json.

    ``found`` is the name that may be meant, None if none is similar; ``there`` are then some that
    samples have. ``every``: all samples were searched. ``instead``: the values that samples have
    under the name, if any.
    """

    def __init__(
        self,
        score: InJson,
        looked: Looked,
        found: FoundName | None,
        there: Sequence[FoundName] = (),
        instead: str = "",
    ) -> None:
        of = f"{how_many(looked.samples, 'sample')} in {how_many(looked.shards, 'shard')}"
        other = f"; {instead}" if instead else ""
        super().__init__(
            f"{looked.none} has a {_KIND[score.name]} {score.path!r} in its {score.field}: {of}{other}"
        )
        self.score, self.found, self.there, self.every = score, found, tuple(there), looked.every


def nearest_name(
    views: Iterable[View], score: InJson
) -> tuple[FoundName | None, list[FoundName], str]:
    """Return the name in the json of some samples nearest to that of a score, and the most frequent names.

    The nearest is one of the score's kind if possible. The others are at most 8, those of its kind
    first. The text describes the values under the score's name if no score reads them.
    """
    # Kind of value under the name.
    unread: Counter[str] = Counter()
    # Name of a score, path.
    counts: Counter[tuple[str, str]] = Counter()
    samples = 0
    for view in views:
        samples += 1
        with suppress(ScoreError, OSError):
            for path, value in _values(view.json(score.field.lower())):
                kind = _OF_KIND.get(type(value))
                if kind is None and path == score.path:
                    unread[_UNREAD[type(value)]] += 1
                if kind is not None and (len(counts) < _MOST_NAMES or (kind.name, path) in counts):
                    counts[kind.name, path] += 1
    by_kind: dict[str, list[str]] = {}
    for name, path in counts:
        by_kind.setdefault(name, []).append(path)
    others = [name for name in by_kind if name != score.name and score.path in by_kind[name]]
    for name in [*others, score.name]:
        known = by_kind.get(name, [])
        ends_alike = (
            path for path in known if path.rpartition(".")[2] == score.path.rpartition(".")[2]
        )
        if (
            path := score.path
            if name in others
            else nearest(score.path, known) or next(ends_alike, "")
        ):
            return FoundName(name, path, counts[name, path], samples), [], ""
    what, count = unread.most_common(1)[0] if unread else ("", 0)
    rejected = (
        f"{count:,} of {samples:,} checked samples have {what} there, which no score reads"
        if what
        else ""
    )
    names = sorted(counts, key=lambda name: (name[0] != score.name, -counts[name]))[:_LISTED]
    return None, [FoundName(*name, counts[name], samples) for name in names], rejected


def _values(tree: object, above: str = "", level: int = 1) -> Iterator[tuple[str, object]]:
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{above}{name}"
        yield path, value
        if level < _DEEPEST:
            yield from _values(value, f"{path}.", level + 1)


AUTO = "auto"
# Samples of all these shards together: a rare name must not cause a search of the whole set.
_CHECKED = 20_000
# Shards, and samples of each, searched for captions.
_SURVEYED, _SAMPLES = 3, 100
_NO_CAPTION = frozenset({"no-caption", "not-text"})
_JSON = ("json", "jsn")
_NOT_TEXT = frozenset({*_JSON, "cls", "label", "class"})
# Characters with a meaning in a place.
_SIGNS = frozenset("|:;*")


class FoundCaptions(NamedTuple):
    """The place of captions, as for --caption, and how many of the checked samples have one."""

    place: str
    there: int
    samples: int
    example: str

    def __str__(self) -> str:
        return f"{self.there:,} of {self.samples:,} checked samples have one in {self.place}, such as {self.example!r}"


class NoCaptions(ValueError):
    """No sample has a caption in ``place``, where the recipe looks for it. ``found`` is a place with captions."""

    def __init__(
        self, place: str, looked: Looked, names: Sequence[str], found: FoundCaptions | None
    ) -> None:
        of = f"{looked.samples:,} samples in {how_many(looked.shards, 'shard')}"
        super().__init__(
            f"{looked.none} has a caption in {place}: {of} have {', '.join(names) or 'no field'}"
        )
        self.place, self.found = place, found


def with_captions(
    urls: Sequence[Shard],
    recipe: Recipe,
    *,
    allow_pipe: bool = False,
    earlier: Mapping[str, object] | None = None,
) -> tuple[Recipe, str]:
    """Return a recipe with the place of captions, and a line on the picked place if the recipe has "auto".

    ``earlier`` is the recipe of a run to resume, as JSON: its places are kept without a new search.
    Otherwise shards are read until each given place had a caption in some sample, at most 20,000
    samples. Raises NoCaptions if none has.
    """
    line = ""
    if recipe.caption == AUTO:
        picked = (earlier or {}).get("caption")
        found = None if picked else find_captions(urls, recipe, allow_pipe=allow_pipe)
        place = str(picked or (found.place if found else CAPTIONS))
        recipe = replace(recipe, caption=place)
        line = f"--caption auto: {found or place}"
    if not (earlier and canonical(recorded(recipe)) == canonical(earlier)):
        check_places(urls, recipe, plan_of(recipe).scores, allow_pipe=allow_pipe)
    return recipe, line


def check_places(
    urls: Sequence[Shard], recipe: Recipe, calls: Collection[ScoreCall], *, allow_pipe: bool = False
) -> None:
    """Check that some sample of tars has the input of a recipe's scores: captions, values in json.

    Raises NoCaptions, NoJsonValue.
    """
    plan = plan_of(recipe)
    facts = [plan.scores[call] for call in calls if call not in _may_be_missing(plan)]
    check_captions(
        urls,
        recipe,
        dict.fromkeys(
            (*_places(recipe, calls), *(fact for fact in facts if isinstance(fact, InJson)))
        ),
        allow_pipe=allow_pipe,
    )


def check_captions(
    urls: Sequence[Shard],
    recipe: Recipe,
    places: Iterable[str | InJson] | None = None,
    *,
    allow_pipe: bool = False,
) -> None:
    """Raise NoCaptions if no sample of tars has a caption in a place; by default, in those of the recipe.

    For a place that is a value in json, raise NoJsonValue.
    """
    missing = dict.fromkeys(_places(recipe, plan_of(recipe).scores) if places is None else places)
    shards, samples, names = 0, 0, Counter[str]()
    chosen = _spread(urls) if missing and urls else []
    most, every = _CHECKED // max(1, len(chosen)), len(chosen) == len(urls)
    for url in chosen:
        with suppress(OSError), closing(_views(url, recipe, allow_pipe=allow_pipe)) as views:
            shards += 1
            for view in islice(views, most):
                samples += 1
                names.update(view.fields)
                missing = {place: None for place in missing if not _has(view, place)}
                if not missing:
                    return
            every = every and next(views, None) is None
    if samples:
        place, looked = next(iter(missing)), Looked(samples, shards, every)
        if isinstance(place, InJson):
            raise NoJsonValue(
                place, looked, *nearest_name(_first(urls, recipe, allow_pipe=allow_pipe), place)
            )
        found = find_captions(urls, recipe, like=place, allow_pipe=allow_pipe)
        raise NoCaptions(place, looked, [name for name, _ in names.most_common(6)], found)


def find_captions(
    urls: Sequence[Shard], recipe: Recipe, *, like: str = "", allow_pipe: bool = False
) -> FoundCaptions | None:
    """Return the most likely place of captions in tars, by the first samples of three shards; None if not found.

    ``like``: a place without captions; the nearest name in json comes first. Deterministic for the
    same shards.
    """
    survey = _Survey()
    for view in _first(urls, recipe, allow_pipe=allow_pipe):
        survey.see(view)
    place = survey.best(like)
    texts = (
        [_text(view, place) for view in _first(urls, recipe, allow_pipe=allow_pipe)]
        if place
        else []
    )
    there = [text for text in texts if text]
    return FoundCaptions(place, len(there), len(texts), there[0][:60]) if there else None


def _places(recipe: Recipe, calls: Collection[ScoreCall]) -> list[str]:
    """Return the places of captions that some scores of a recipe use, and a given place if all scores are checked."""
    plan = plan_of(recipe)
    tested = _may_be_missing(plan)
    used = [
        vars(score)["caption"] or recipe.caption
        for call, score in plan.scores.items()
        if call in calls
        and call not in tested
        and any(item.name == "caption" for item in fields(score))
        and not (isinstance(score, BatchScore) and score.inputs == "image")
    ]
    every = plan.scores.keys() <= {*calls}
    return [*used, *([recipe.caption] if every and recipe.caption != CAPTIONS else [])]


def _may_be_missing(plan: FilterPlan) -> frozenset[ScoreCall]:
    """Return the scores that the predicate tests for None: it handles samples without their input."""
    return plan.expression.may_be_missing if plan.expression is not None else frozenset()


def _has(view: ShardView, place: str | InJson) -> bool:
    """Return whether a sample has a caption there, readable or not, or a value."""
    try:
        place.score(view) if isinstance(place, InJson) else view.captions(place)
    except ScoreError as error:
        return error.slug not in (_NO_VALUE if isinstance(place, InJson) else _NO_CAPTION)
    # A stream that cannot seek back: unknown.
    except OSError:
        return True
    return True


def _text(view: ShardView, place: str) -> str:
    with suppress(ScoreError, OSError):
        return view.captions(place)[0].strip()
    return ""


def _first(urls: Sequence[Shard], recipe: Recipe, *, allow_pipe: bool) -> Iterator[ShardView]:
    for url in _spread(urls)[:_SURVEYED]:
        with suppress(OSError), closing(_views(url, recipe, allow_pipe=allow_pipe)) as views:
            yield from islice(views, _SAMPLES)


def _views(url: Shard, recipe: Recipe, *, allow_pipe: bool) -> Generator[ShardView, None, None]:
    options = ViewOptions(images=recipe.image)
    with open_source(url, allow_pipe=allow_pipe) as source:
        samples = Samples(source, contents=False)
        views = Views(samples, options, url, recipe.stages)
        for sample in samples:
            if not sample.trouble:
                with suppress(RejectedSample):
                    yield views.view(sample)


def _spread(urls: Sequence[Shard]) -> list[Shard]:
    """Return shards to check: first, last, middle, then the others in order."""
    some = some_of(urls)
    order = dict.fromkeys((0, len(some) - 1, len(some) // 2, *range(len(some))))
    return [some[number] for number in order]


class _Survey:
    """Texts of samples that may be captions."""

    def __init__(self) -> None:
        from wdsflow.scan.evidence import ShardEvidence
        from wdsflow.scan.naming import CAPTIONS as KNOWN

        self._names = [name for name in KNOWN if name not in _NOT_TEXT]
        # Member -> number of samples in which it holds text.
        self._texts: Counter[str] = Counter()
        self._json = {member: ShardEvidence(Shard.stored(member)) for member in _JSON}
        self._samples = 0

    def see(self, view: ShardView) -> None:
        from wdsflow.scan.naming import note_names

        self._samples += 1
        for name in view.fields:
            if name in self._json:
                with suppress(ScoreError, OSError):
                    note_names(self._json[name], view.json(name))
            elif name.rpartition(".")[2] in self._names and not _SIGNS & {*name}:
                number, _, rest = name.partition(".")
                place = rest if number.isdigit() and rest else name
                self._texts[place] += bool(_text(view, place))

    def best(self, like: str) -> str:
        """Return the place with most captions, followed by the other kind if some samples lack it."""
        counts: dict[str, int] = {}
        texts = [name for name, count in self._texts.items() if count]
        if texts:
            text = min(texts, key=lambda name: (self._names.index(name.rpartition(".")[2]), name))
            counts[text] = self._texts[text]
        wanted = [
            part for part in parse_captions(like or CAPTIONS) if isinstance(part, CaptionField)
        ]
        counts |= self._in_json([name for part in wanted for name in part.names])
        places = sorted(
            counts, key=lambda place: (bool(wanted) and ":" not in place, -counts[place])
        )
        return "|".join(places[: 1 if places and counts[places[0]] == self._samples else 2])

    def _in_json(self, wanted: Sequence[str]) -> Iterator[tuple[str, int]]:
        from wdsflow.scan.naming import caption_name

        for member, evidence in self._json.items():
            keys = {
                name: key
                for name, key in evidence.json_keys.items()
                if key.strings and not {"|", ";"} & {*name}
            }
            close = next(
                (
                    near
                    for name in wanted
                    if (near := name if name in keys else nearest(name, keys))
                ),
                "",
            )
            best = caption_name([evidence])
            name = close or (best[0] if best is not None else "")
            if name in keys:
                yield f"{member}:{name}", keys[name].strings
                return
