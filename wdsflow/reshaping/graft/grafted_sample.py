"""The new members of a sample: values of a table as fields of their own or inside its json."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from wdsflow.pieces.new_members import member, members
from wdsflow.shards.samples.tar_samples import TarSample
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.plain_entries import Row

from .join_on import FieldToSet
from .noted_samples import NotedSamples, Unusable

_BLANK = re.compile(r"[ \t\n\r]*")
_scan: Callable[[str, int], tuple[object, int]] = vars(json.JSONDecoder())["scan_once"]


class BrokenJson(ValueError):
    """Text that is not a json object."""


class _Member(NamedTuple):
    name: str
    start: int  # of the name
    value: int  # start of the value
    end: int  # of the value


def set_in_json(data: bytes, values: Sequence[tuple[str, object]]) -> bytes:
    r"""Return the json with values set, in its own encoding; no bytes at all are an empty object.

    A name with dots is a path through objects, unless an object has a member of that very name. A value that is there
    is replaced in its place, a new one is put after the last; objects on a path are made if there are none.

    Raises BrokenJson if it is no object, or a value on the path is no object.

    >>> set_in_json(b'{"a": 1.10, "b": {"c": null}}', [("b.d", "x"), ("a", 2)])
    b'{"a": 2, "b": {"c": null, "d": "x"}}'
    """
    if not data.strip():
        data = b"{}"
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
        for name, value in values:
            text = _set(text, name, json.dumps(value, ensure_ascii=False))
        return text.encode(encoding)
    except (ValueError, RecursionError) as error:
        raise BrokenJson(str(error)) from None


def _set(text: str, name: str, value: str) -> str:
    members, start, end = _members(text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise BrokenJson("text after the object")
    return _put(text, members, start, end, name, value)


def _put(text: str, members: list[_Member], start: int, end: int, name: str, value: str) -> str:
    """Set a value in an object whose braces are at ``start`` and before ``end``."""
    by_name = {member.name: member for member in members}  # of equal names the last counts, as for all readers
    found = by_name.get(name)
    first, dot, rest = name.partition(".")
    if found is not None:
        return text[: found.value] + value + text[found.end :]
    if dot and first and rest:
        inner = by_name.get(first)
        if inner is not None:
            if text[inner.value] != "{":
                raise BrokenJson(f"{first} is not an object")
            return _put(text, *_members(text, inner.value), rest, value)
        name, value = first, _nested(rest, value)
    spelled = json.dumps(name, ensure_ascii=False)
    if not members:
        return f"{text[: start + 1]}{spelled}: {value}{text[end - 1 :]}"
    last = members[-1]
    before = text[members[-2].end if len(members) > 1 else start + 1 : last.start]
    blank = before.partition(",")[2] if len(members) > 1 else before or " "  # as the members that are there
    return f"{text[: last.end]},{blank}{spelled}: {value}{text[last.end :]}"


def _nested(path: str, value: str) -> str:
    first, dot, rest = path.partition(".")
    return f"{{{json.dumps(first, ensure_ascii=False)}: {_nested(rest, value) if dot else value}}}"


def _members(text: str, at: int) -> tuple[list[_Member], int, int]:
    """Return the members of the object that begins here, its start, and the place after its end."""
    begin = at
    if text[at : at + 1] != "{":
        raise BrokenJson("it is not an object")
    members: list[_Member] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return members, begin, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise BrokenJson(f"no name at character {at}")
        name, after = scanstring(text, at + 1)
        colon = _skip(text, after)
        if text[colon : colon + 1] != ":":
            raise BrokenJson(f"no colon at character {colon}")
        value = _skip(text, colon + 1)
        try:
            _, end = _scan(text, value)
        except StopIteration:
            raise BrokenJson(f"no value at character {value}") from None
        members.append(_Member(name, at, value, end))
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "}":
            return members, begin, at + 1
        if mark != ",":
            raise BrokenJson(f"no comma at character {at}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches nothing at all, too
    return found.end()


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
