"""Searches the fields of samples for captions."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from wdsflow.expressions.errors import nearest
from wdsflow.filtering.joined_samples import JoinedSamples
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.samples.shard_view import ShardView
from wdsflow.shards.caption_field import CaptionField
from wdsflow.shards.shard import Shard
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_fields import CAPTIONS, parse_captions
from wdsflow.text.words import how_many

from .checked_samples import SearchScope, first_samples

_JSON = ("json", "jsn")
_NOT_TEXT = frozenset({*_JSON, "cls", "label", "class"})
# Characters with a meaning in --caption.
_SIGNS = frozenset("|:;*")


class CaptionFields(NamedTuple):
    """The fields with captions, how many checked samples have one, and an example.

    The fields are written as for --caption.
    """

    fields: str
    samples_with: int
    samples: int
    example: str

    def __str__(self) -> str:
        return f"{self.samples_with:,} of {self.samples:,} checked samples have one in {self.fields}, such as {self.example!r}"


class NoCaptions(ValueError):
    """No sample has a caption in ``fields``, where the recipe looks for it.

    ``nearest`` are fields with captions.
    """

    def __init__(
        self, fields: str, scope: SearchScope, names: Sequence[str], nearest: CaptionFields | None
    ) -> None:
        searched = f"{how_many(scope.samples, 'sample')} of {how_many(scope.shards, 'shard')}"
        listed = ", ".join(names) or "no field"
        super().__init__(
            f"{scope.nothing_found_subject} has a caption in {fields}: found {listed} in {searched}"
        )
        self.fields = fields
        self.nearest = nearest


def find_captions(
    urls: Sequence[Shard],
    recipe: Recipe,
    *,
    like: str = "",
    allow_pipe: bool = False,
    join: JoinedSamples | None = None,
) -> CaptionFields | None:
    """Return the most likely fields of captions in tars; None if there are no captions.

    The first samples of three shards are read.

    ``like``: fields without captions; the nearest name in json comes first. ``join``: gives samples
    fields of a table. Deterministic for the same shards.
    """
    survey = _Survey()
    for view in first_samples(urls, recipe, allow_pipe=allow_pipe, join=join):
        survey.add(view)
    fields = survey.best(like)
    if not fields:
        return None
    views = first_samples(urls, recipe, allow_pipe=allow_pipe, join=join)
    texts = [_text(view, fields) for view in views]
    captions = [text for text in texts if text]
    if not captions:
        return None
    return CaptionFields(fields, len(captions), len(texts), captions[0][:60])


class _Survey:
    """Counts texts of samples that may be captions."""

    def __init__(self) -> None:
        from wdsflow.scan.evidence import ShardEvidence
        from wdsflow.scan.naming import CAPTIONS as CAPTION_NAMES

        self._names = [name for name in CAPTION_NAMES if name not in _NOT_TEXT]
        # Member -> number of samples in which it holds text.
        self._texts: Counter[str] = Counter()
        self._json = {member: ShardEvidence(Shard.from_text(member)) for member in _JSON}
        self._samples = 0

    def add(self, view: ShardView) -> None:
        """Count the texts of a sample."""
        from wdsflow.scan.caption_names import add_json_names

        self._samples += 1
        for name in view.fields:
            if name in self._json:
                with suppress(ScoreError, OSError):
                    add_json_names(self._json[name], view.json(name))
            elif name.rpartition(".")[2] in self._names and not _SIGNS & {*name}:
                number, _, rest = name.partition(".")
                field = rest if number.isdigit() and rest else name
                self._texts[field] += bool(_text(view, field))

    def best(self, like: str) -> str:
        """Return the fields with most captions.

        The other kind follows if some samples lack them.
        """
        counts: dict[str, int] = {}
        texts = [name for name, count in self._texts.items() if count]
        if texts:
            text = min(texts, key=lambda name: (self._names.index(name.rpartition(".")[2]), name))
            counts[text] = self._texts[text]
        parts = parse_captions(like or CAPTIONS)
        json_fields = [part for part in parts if isinstance(part, CaptionField)]
        counts |= self._in_json([name for field in json_fields for name in field.names])
        # If captions are in json, text fields come last.
        fields = sorted(
            counts, key=lambda field: (bool(json_fields) and ":" not in field, -counts[field])
        )
        is_enough = bool(fields) and counts[fields[0]] == self._samples
        return "|".join(fields[: 1 if is_enough else 2])

    def _in_json(self, names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield the field in json that is nearest to some names, with its count.

        If none is near, yield the most likely field.
        """
        from wdsflow.scan.caption_names import caption_name

        for member, evidence in self._json.items():
            with_texts = {name: key for name, key in evidence.json_keys.items() if key.strings}
            keys = {name: key for name, key in with_texts.items() if not {"|", ";"} & {*name}}
            name = _nearest_key(names, keys)
            if not name:
                best = caption_name([evidence])
                name = best[0] if best is not None else ""
            if name in keys:
                yield f"{member}:{name}", keys[name].strings
                return


def _nearest_key(names: Sequence[str], keys: Collection[str]) -> str:
    """Return the key that is, or is nearest to, the first name that has one; "" if none has."""
    for name in names:
        key = name if name in keys else nearest(name, keys)
        if key:
            return key
    return ""


def _text(view: ShardView, fields: str) -> str:
    """Return the first caption of a sample, "" if it has none."""
    with suppress(ScoreError, OSError):
        return view.captions(fields)[0].strip()
    return ""
