"""The rows of a plan, in files of the run.

They are written while tables are read. Any process that writes a shard reads them.
"""

import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO, Any, NamedTuple

import orjson

from ..files.media_files import FileRef

# Of the head of a record, and of its texts.
_LENGTHS = Struct("<II")
# Of a row in the file of locations: start, length, bytes in a shard.
_NUMBERS = 3
_BUFFER = 1 << 20
# Bytes of the rows that are read at once.
_READ = 1 << 16
# Locations that are read at once.
_AT_ONCE = 16_384

File = tuple[str, str, FileRef]
"""A file of a row: the name of its field, or "" to name it by its type; its column; the file."""
Location = tuple[int, int, int]
"""Of a row: its offset and length in the file of rows, and its bytes in a shard."""


class PlannedRow(NamedTuple):
    """A row that may become a sample."""

    source: int
    number: int
    key: str
    files: list[File]
    texts: list[tuple[str, bytes]]


class RowsWriter:
    """Writes rows in table order, then their locations in shard order."""

    def __init__(self, folder: Path) -> None:
        self._rows = _new(folder / "rows")
        self._locations = _new(folder / "locations")
        self._size = 0

    def add(self, row: PlannedRow) -> tuple[int, int]:
        """Append a row; return its offset and length. Raises OSError."""
        sizes = [(name, len(text)) for name, text in row.texts]
        head = _head([row.source, row.number, row.key, row.files, sizes])
        texts = b"".join([text for _, text in row.texts])
        data = b"".join((_LENGTHS.pack(len(head), len(texts)), head, texts))
        self._rows.write(data)
        start = self._size
        self._size += len(data)
        return start, len(data)

    def append_locations(self, numbers: "array[int]") -> None:
        """Append the locations of the next rows, as an array of their numbers.

        Raises OSError.
        """
        numbers.tofile(self._locations)

    def flush(self) -> None:
        """Let others read what was written. Raises OSError."""
        self._rows.flush()
        self._locations.flush()

    def close(self) -> None:
        """Close both files."""
        self._rows.close()
        self._locations.close()


class StoredRows:
    """Reads the rows of a plan. It can be sent to another process."""

    def __init__(self, folder: Path) -> None:
        self._rows = folder / "rows"
        self._locations = folder / "locations"

    def locations(self, start: int, end: int) -> Iterator[Location]:
        """Yield the locations of rows, in the order of the shards."""
        with open(self._locations, "rb") as file:
            file.seek(start * _NUMBERS * 8)
            while start < end:
                count = min(_AT_ONCE, end - start)
                numbers = array("Q")
                numbers.fromfile(file, count * _NUMBERS)
                start += count
                yield from zip(*[iter(numbers)] * _NUMBERS, strict=True)

    def row_at(self, start: int) -> PlannedRow:
        """Return the row at an offset of the file of rows."""
        with open(self._rows, "rb", buffering=0) as file:
            lengths = _LENGTHS.unpack(os.pread(file.fileno(), _LENGTHS.size, start))
            return _row(os.pread(file.fileno(), _LENGTHS.size + sum(lengths), start))

    def raw_rows(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of rows, in the order of the shards; neighbours are read together."""
        with open(self._rows, "rb", buffering=0) as file:
            block = b""
            block_start = 0
            # Where the row before ends.
            last_end = 0
            for first, length, _ in self.locations(start, end):
                is_in_block = block_start <= first <= block_start + len(block) - length
                if not is_in_block:
                    size = max(length, _READ) if first == last_end else length
                    block = os.pread(file.fileno(), size, first)
                    block_start = first
                last_end = first + length
                yield block[first - block_start : last_end - block_start]

    def planned_rows(self, start: int, end: int) -> Iterator[PlannedRow]:
        """Yield rows, in the order of the shards."""
        return map(_row, self.raw_rows(start, end))


def _row(data: bytes) -> PlannedRow:
    """Return the row of a record."""
    head_length, _texts_length = _LENGTHS.unpack_from(data)
    position = _LENGTHS.size + head_length
    source, number, key, files, sizes = _parsed(data[_LENGTHS.size : position])
    texts: list[tuple[str, bytes]] = []
    for name, size in sizes:
        texts.append((name, data[position : position + size]))
        position += size
    return PlannedRow(source, number, key, files, texts)


def _head(values: list[Any]) -> bytes:
    try:
        return orjson.dumps(values)
    except TypeError:
        # Bytes of a path that are not UTF-8 are lone surrogates, which orjson refuses.
        return json.dumps(values).encode()


def _parsed(head: bytes) -> list[Any]:
    try:
        values: list[Any] = orjson.loads(head)
    except ValueError:
        values = json.loads(head)
    return values


def _new(path: Path) -> IO[bytes]:
    return open(path, "wb", buffering=_BUFFER)
