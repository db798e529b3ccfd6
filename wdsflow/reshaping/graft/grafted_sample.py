"""The bytes of one sample with fields added or replaced: ranges of its tar, and new members."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wdsflow.shards.samples.tar_sample import Range, TarSample
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.write_shard import BLOCK, header

from .graft_table import Unusable
from .join_on import FieldToSet
from .set_in_json import BrokenJson, set_in_json

Pieces = list[Range | bytes]

BROKEN_JSON = "its json is not an object"
NO_NAME = "its key holds a zero byte"
TOO_LARGE = "its json is larger than 64 MiB"
_MOST_JSON = 64 << 20


class GraftedFields:
    """Makes the pieces of samples.

    Args:
        fields: what is set.
        columns: the columns in whose order values are given.
    """

    def __init__(self, fields: Sequence[FieldToSet], columns: Sequence[str]) -> None:
        places = {column: place for place, column in enumerate(columns)}
        self._whole = [(each.field, places[each.column], str(each)) for each in fields if not each.name]
        self._inside = [(each.name, places[each.column], str(each)) for each in fields if each.name]
        self._labels = list(map(str, fields))

    def pieces(
        self, sample: TarSample, read: Callable[[Row], bytes], values: Sequence[Any]
    ) -> tuple[Pieces, Counter[str], str]:
        """Return the new pieces of a sample, what was not set (what and why -> 1), and what is wrong with the sample.

        Nothing is set, and the sample stays as it is, if something is wrong with it. Members that are not set are ranges
        of the tar. A member that is replaced stays in its place, with its name; a new one follows the last. A null sets
        nothing. Text is written in UTF-8, bytes as they are, anything else as JSON.

        Args:
            sample: a sample of a tar.
            read: returns the contents of one of its members.
            values: of one row of the table, in the order of the columns.
        """
        missed: Counter[str] = Counter()
        contents: dict[str, bytes] = {}
        wrong = NO_NAME if "\0" in sample.key else ""
        for field, place, label in self._whole:
            if (data := _contents(values[place], label, missed)) is not None:
                contents[field] = data
        inside = [
            (name, values[place]) for name, place, label in self._inside if _is_json(values[place], label, missed)
        ]
        if inside and not wrong:
            row = sample.fields.get("json")
            if row is not None and row[1] > _MOST_JSON:
                wrong = TOO_LARGE
            else:
                try:
                    contents["json"] = set_in_json(b"" if row is None else read(row), inside)
                except BrokenJson:
                    wrong = BROKEN_JSON
        if wrong or not contents:
            return [(sample.start, sample.end)], missed, wrong
        return _replaced(sample, contents), missed, ""


def _replaced(sample: TarSample, contents: dict[str, bytes]) -> Pieces:
    pieces: Pieces = []
    at = sample.start
    there = sorted((sample.fields[field], field) for field in contents if field in sample.fields)
    for row, field in sorted(there, key=lambda item: item[0][3]):
        name, size, data, start, _ = row
        if start > at:
            pieces.append((at, start))
        pieces.append(member(name, contents[field]))
        at = data + (size + 511 & -512)
    if sample.end > at:
        pieces.append((at, sample.end))
    pieces += [member(f"{sample.key}.{field}", data) for field, data in contents.items() if field not in sample.fields]
    return pieces


def member(name: str, data: bytes) -> bytes:
    """Return a member of a tar: its header, its contents and their padding."""
    return b"".join((header(name, len(data)), data, bytes(-len(data) % BLOCK)))


def size_of(pieces: Iterable[Range | bytes]) -> int:
    """Return how many bytes they are.

    >>> size_of([(512, 1024), bytes(3)])
    515
    """
    return sum(len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces)


def _contents(value: Any, label: str, missed: Counter[str]) -> bytes | None:
    """Return what a member holds; None if nothing is set, which is counted."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if value is None:
        missed[f"{label}: null in the table"] += 1
        return None
    if isinstance(value, Unusable):
        missed[f"{label}: {value.reason}"] += 1
        return None
    return json.dumps(value, ensure_ascii=False).encode()


def _is_json(value: Any, label: str, missed: Counter[str]) -> bool:
    if value is not None and not isinstance(value, (Unusable, bytes)):
        return True
    reason = "null in the table" if value is None else value.reason if isinstance(value, Unusable) else "bytes"
    missed[f"{label}: {reason}"] += 1
    return False
