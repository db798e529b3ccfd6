"""What is noted on the disk between the passes: samples and what they are joined on, and the values of rows."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from wdsflow.shards.samples.tar_samples import TarSample

if TYPE_CHECKING:
    from wdsflow.shards.tar.plain_entries import Row

ABSENT = -1  # in place of a row
_WINDOW = 4 << 20  # bytes of rows that are decoded at once
_ROWS_AT_ONCE = 4096  # rows, at most
_CODED = b"~"


class Unusable(NamedTuple):
    """A value of the table that no file can hold, and why."""

    reason: str


def coded(row: Sequence[object]) -> bytes:
    """Return the values as one line, without its end."""
    import orjson

    try:
        return orjson.dumps(row, default=_as_text, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:  # bytes, lone surrogates, integers beyond 64 bits
        return _CODED + json.dumps([*map(_single, row)]).encode()


def decoded_at_once(lines: Iterator[bytes], rows: Sequence[int]) -> Iterator[list[list[object] | None]]:
    """Yield the values of neighbouring samples, some at a time: memory is bounded, whatever their size.

    Args:
        lines: the lines of the samples that have a row, in their order.
        rows: the row of each sample; those without one, below 0, have None.
    """
    at = 0
    while at < len(rows):
        start, size, texts = at, 0, list[bytes]()
        while at < len(rows) and at - start < _ROWS_AT_ONCE and size < _WINDOW:
            if rows[at] >= 0:
                texts.append(next(lines, b""))
                size += len(texts[-1])
            at += 1
        if texts and not texts[-1]:
            raise OSError("the rows of the samples are cut: they were changed while they were read")
        values = iter(_all_decoded(texts))
        yield [next(values) if row >= 0 else None for row in rows[start:at]]


def _as_text(value: object) -> str:
    if isinstance(value, (bytes, str, int)):
        raise TypeError
    return str(value)


def _no_bytes(value: object) -> str:
    """Return dates and the like as text. Raises TypeError for bytes in a list."""
    if isinstance(value, (bytes, bytearray)):
        raise TypeError
    return str(value)


def _single(value: object) -> list[object]:
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    try:
        text = json.dumps(value, ensure_ascii=False, default=_no_bytes, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return ["unusable", "text that UTF-8 cannot hold"]
    except (ValueError, TypeError, RecursionError):
        return ["json", None] if isinstance(value, float) else ["unusable", "a value that JSON cannot hold"]
    return ["json", json.loads(text)]


def _all_decoded(texts: Sequence[bytes]) -> Iterable[list[object]]:
    import orjson

    try:
        found: list[list[object]] = orjson.loads(b"[%b]" % b",".join(texts))
    except ValueError:  # some are coded in another way
        return map(_decoded, texts)
    return found


def _decoded(text: bytes) -> list[object]:
    import orjson

    if not text.startswith(_CODED):
        found: list[object] = orjson.loads(text)
        return found
    return [
        base64.b64decode(value) if kind == "bytes" else Unusable(value) if kind == "unusable" else value
        for kind, value in json.loads(text[1:])
    ]


AT_ONCE = 4096  # samples of a line, about


class JoinValues(NamedTuple):
    """What neighbouring samples are joined on, which of them are next to damage, and what they say of the checked columns.

    ``told``: for each sample, a value for each column, or nothing; empty if nothing is checked.
    """

    values: list[str | None]
    damaged: list[int]
    told: list[list[str | None]]

    def write(self, file: BinaryIO) -> None:
        """Append it to a file."""
        import orjson

        file.write(orjson.dumps([*self]) + b"\n")

    @staticmethod
    def read(path: Path) -> Iterator["JoinValues"]:
        """Yield what a file has. Raises OSError."""
        import orjson

        with open(path, "rb") as lines:
            yield from (JoinValues(*orjson.loads(line)) for line in lines)


class NotedSamples:
    """Neighbouring samples, as columns: where each begins and ends, and its members of some fields.

    Args:
        fields: those whose members are noted.
    """

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.keys: list[str] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.trouble: list[str] = []
        self.fields: dict[str, list[Row | None]] = {name: [] for name in fields}

    def add(self, sample: TarSample) -> None:
        """Note a sample."""
        self.keys.append(sample.key)
        self.start.append(sample.start)
        self.end.append(sample.end)
        self.trouble.append(sample.trouble)
        for name, rows in self.fields.items():
            rows.append(sample.fields.get(name))

    def sample(self, place: int) -> TarSample:
        """Return one of them, with the fields that were noted, and without its number."""
        sample = TarSample(0, self.keys[place], self.start[place])
        sample.end, sample.trouble = self.end[place], self.trouble[place]
        sample.fields = {name: row for name, rows in self.fields.items() if (row := rows[place]) is not None}
        return sample


def write_notes(file: BinaryIO, notes: NotedSamples) -> bool:
    """Append a line with some samples; return whether that is possible: names that are not UTF-8 cannot be noted."""
    import orjson

    try:
        file.write(orjson.dumps(vars(notes)) + b"\n")
    except TypeError:
        return False
    return True


def read_notes(path: Path) -> Iterator[NotedSamples]:
    """Yield the samples of all lines. Raises OSError."""
    import orjson

    with open(path, "rb") as lines:
        for line in lines:
            notes = NotedSamples()
            vars(notes).update(orjson.loads(line))
            yield notes


def noted(samples: Iterable[TarSample], fields: Sequence[str]) -> Iterator[NotedSamples]:
    """Yield samples as they would be noted, some at a time."""
    notes = NotedSamples(fields)
    for sample in samples:
        notes.add(sample)
        if len(notes.keys) == AT_ONCE:
            yield notes
            notes = NotedSamples(fields)
    if notes.keys:
        yield notes
