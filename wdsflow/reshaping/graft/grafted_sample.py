"""The bytes of one sample with fields added or replaced: ranges of its tar, and new members."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wdsflow.pieces.new_members import member, members
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.plain_entries import Row

from .join_on import FieldToSet
from .noted_samples import NotedSamples, Unusable
from .set_in_json import BrokenJson, set_in_json

Pieces = list[Piece]

BROKEN_JSON = "its json is not an object"
NO_NAME = "its key holds a zero byte"
NULL = "null in the table"
TOO_LARGE = "its json is larger than 64 MiB"
_MOST_JSON = 64 << 20


@dataclass
class FieldTally:
    """What was not set. ``unset``: --set -> samples; ``missed``: --set and why -> samples; ``impossible``: why -> samples in which nothing could be set."""

    unset: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    impossible: Counter[str] = field(default_factory=Counter)


class GraftedFields:
    """Makes the pieces of samples.

    Args:
        fields: what is set.
        columns: the columns in whose order values are given.
    """

    def __init__(self, fields: Sequence[FieldToSet], columns: Sequence[str]) -> None:
        self._fields = [(each.field, each.name, str(each), columns.index(each.column)) for each in fields]
        self.touched = tuple(dict.fromkeys(each.field for each in fields))
        self._only_text = not any(each.name for each in fields)

    def pieces(
        self,
        sample: TarSample,
        read: Callable[[Row], bytes],
        values: Sequence[object],
        tally: FieldTally,
        *,
        extended: bool = False,
    ) -> tuple[Pieces, bool]:
        """Return the new pieces of a sample, and whether that was possible; if not, nothing is set in the sample.

        Members that are not set are ranges of the tar. A member that is replaced stays in its place, with its name; a
        new one follows the last. A null sets nothing. Text is written in UTF-8, bytes as they are, anything else as
        JSON.

        Args:
            sample: a sample of a tar.
            read: returns the contents of one of its members.
            values: of one row of the table, in the order of the columns.
            tally: counts what is not set.
            extended: a global header of the tar changes names or sizes, and new members need extended headers.
        """
        contents: dict[str, bytes] = {}
        inside: list[tuple[str, object]] = []
        unset: list[tuple[str, str]] = []
        for target, name, label, place in self._fields:
            value = values[place]
            if not isinstance(value, str) and (reason := _unfit(value, inside=bool(name))):
                unset.append((label, reason))
                continue
            if name:
                inside.append((name, value))
            else:
                contents[target] = _contents(value)
        wrong = NO_NAME if "\0" in sample.key else ""
        if inside and not wrong:
            wrong = self._set_inside(sample, read, inside, contents)
        if wrong:
            tally.impossible[wrong] += 1
            return [(sample.start, sample.end)], False
        for label, reason in unset:
            tally.unset[label] += 1
            tally.missed[f"{label}: {reason}"] += 1
        made: list[tuple[Row | None, bytes]] = []
        for target, data in contents.items():
            row = sample.fields.get(target)
            name = row[0] if row is not None else f"{sample.key}.{target}"
            made.append((row, member(name, data, extended=extended)))
        return _merged(sample.start, sample.end, made), True

    def plain_pieces(
        self, notes: NotedSamples, first: int, values: Sequence[Sequence[Any] | None], *, extended: bool = False
    ) -> list[Pieces | None]:
        """Return the pieces of neighbouring samples for which no more than text is to be set; None for all others.

        Args:
            notes: the samples.
            first: the place of the first of them.
            values: of the row of each, in the order of the columns; None if it has none.
            extended: as for ``pieces``.
        """
        pieces: list[Pieces | None] = [None] * len(values)
        chosen, names, contents = list[int](), list[bytes](), list[bytes]()
        if extended or not self._only_text:
            return pieces
        columns = [(target, notes.fields[target], place) for target, _, _, place in self._fields]
        for at, found in enumerate(values, first):
            if found is None or notes.trouble[at] or "\0" in notes.keys[at]:
                continue
            if all(type(found[place]) is str for _, _, place in columns):
                chosen.append(at)
                for target, rows, place in columns:
                    row = rows[at]
                    name = row[0] if row is not None else f"{notes.keys[at]}.{target}"
                    names.append(name.encode("utf-8", "surrogateescape"))
                    contents.append(found[place].encode())
        new = iter(members(names, contents))
        for at in chosen:
            made = [(rows[at], next(new)) for _, rows, _ in columns]
            pieces[at - first] = _merged(notes.start[at], notes.end[at], made)
        return pieces

    def set_in(self, tally: FieldTally, samples: int) -> Counter[str]:
        """Return in how many of some samples each field was set, by --set."""
        counts = {label: samples - tally.unset[label] for _, _, label, _ in self._fields}
        return Counter({label: count for label, count in counts.items() if count})

    @staticmethod
    def _set_inside(
        sample: TarSample, read: Callable[[Row], bytes], inside: list[tuple[str, object]], contents: dict[str, bytes]
    ) -> str:
        """Add the new json to the contents; return why that is not possible, "" if it is."""
        row = sample.fields.get("json")
        if row is not None and row[1] > _MOST_JSON:
            return TOO_LARGE
        try:
            contents["json"] = set_in_json(b"" if row is None else read(row), inside)
        except BrokenJson:
            return BROKEN_JSON
        return ""


def _merged(start: int, end: int, made: Sequence[tuple[Row | None, bytes]]) -> Pieces:
    """Return the pieces of a sample with new members: each with the member that it replaces, None if it is one more."""
    pieces: Pieces = []
    there = [(row[3], row[2] + (row[1] + 511 & -512), new) for row, new in made if row is not None]
    for begin, stop, new in sorted(there) if len(there) > 1 else there:
        if begin > start:
            pieces.append((start, begin))
        pieces.append(new)
        start = stop
    if end > start:
        pieces.append((start, end))
    if len(there) < len(made):
        pieces += [new for row, new in made if row is None]
    return pieces


def _unfit(value: object, *, inside: bool) -> str:
    """Return why a value sets nothing, "" if it does."""
    if value is None:
        return NULL
    if isinstance(value, Unusable):
        return value.reason
    return "bytes, which JSON cannot hold" if inside and isinstance(value, bytes) else ""


def _contents(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
