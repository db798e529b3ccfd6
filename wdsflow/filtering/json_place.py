"""Names in the json of samples that predicates use: what is there instead of one that no sample has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from wdsflow.filtering.where.known_facts import InJson, JsonNumber, JsonTextFact
from wdsflow.filtering.where.language.predicate_errors import nearest
from wdsflow.stages.scores.sample_view import View
from wdsflow.stages.scores.score_errors import ScoreError
from wdsflow.text.words import how_many

_NOT_THERE = frozenset({"no-json", "no-value", "not-a-number", "not-text"})
_DEEPEST, _MOST = 4, 1_000  # levels of nested objects, and names, that are looked at
_LISTED = 8  # names that a message lists
_OF_KIND: dict[type, type[InJson]] = {int: JsonNumber, float: JsonNumber, str: JsonTextFact}
_UNREAD: dict[type, str] = {bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
_KIND = {"json_number": "number", "json_text": "text"}


class FoundName(NamedTuple):
    """A name in json that may be meant, with the score that reads it, and how many of the checked samples have it."""

    score: str
    path: str
    there: int
    samples: int

    def __str__(self) -> str:
        have = f"{self.there:,} of {self.samples:,} checked samples have a {_KIND[self.score]} {self.path!r}"
        return f"{have}: {self.score}({self.path!r})"


class Looked(NamedTuple):
    """How many samples were searched for a name, and whether these are all."""

    samples: int
    shards: int
    every: bool

    @property
    def none(self) -> str:
        """The subject of a sentence that says what no sample has."""
        return "no sample" if self.every else "none of the checked samples"


class NoJsonValue(ValueError):
    """No sample has the value of a score of json.

    ``found`` is the name that may be meant, None if none is similar; ``there`` are then some that samples have.
    ``every``: all samples were searched. ``instead``: what samples have under the name, if they have it.
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
        super().__init__(f"{looked.none} has a {_KIND[score.name]} {score.path!r} in its {score.field}: {of}{other}")
        self.score, self.found, self.there, self.every = score, found, tuple(there), looked.every


def has_value(view: View, score: InJson) -> bool:
    """Return whether a sample has the value; True if it cannot be known."""
    try:
        score.score(view)
    except ScoreError as error:
        return error.slug not in _NOT_THERE
    except OSError:  # a stream that cannot go back to it
        return True
    return True


def nearest_name(views: Iterable[View], score: InJson) -> tuple[FoundName | None, list[FoundName], str]:
    """Return the name in the json of some samples that is nearest to that of a score, and the most frequent names.

    The nearest is one of the score's kind, if there is any. The others are at most 8, those of its kind first. The text
    tells what samples have under the name of the score if no score reads that.
    """
    unread: Counter[str] = Counter()  # what the name stands for
    counts: Counter[tuple[str, str]] = Counter()  # name of a score, path
    samples = 0
    for view in views:
        samples += 1
        with suppress(ScoreError, OSError):
            for path, value in _values(view.json(score.field.lower())):
                kind = _OF_KIND.get(type(value))
                if kind is None and path == score.path:
                    unread[_UNREAD[type(value)]] += 1
                if kind is not None and (len(counts) < _MOST or (kind.name, path) in counts):
                    counts[kind.name, path] += 1
    by_kind: dict[str, list[str]] = {}
    for name, path in counts:
        by_kind.setdefault(name, []).append(path)
    others = [name for name in by_kind if name != score.name and score.path in by_kind[name]]
    for name in [*others, score.name]:
        if path := score.path if name in others else _alike(score.path, by_kind.get(name, [])):
            return FoundName(name, path, counts[name, path], samples), [], ""
    what, count = unread.most_common(1)[0] if unread else ("", 0)
    told = f"{count:,} of {samples:,} checked samples have {what} there, which no score reads" if what else ""
    names = sorted(counts, key=lambda name: (name[0] != score.name, -counts[name]))[:_LISTED]
    return None, [FoundName(*name, counts[name], samples) for name in names], told


def _alike(path: str, known: list[str]) -> str:
    """Return the known path that is nearest, or that ends in the same name."""
    last = path.rpartition(".")[2]
    return nearest(path, known) or next((each for each in known if each.rpartition(".")[2] == last), "")


def _values(tree: Any, above: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{above}{name}"
        yield path, value
        if level < _DEEPEST:
            yield from _values(value, f"{path}.", level + 1)
