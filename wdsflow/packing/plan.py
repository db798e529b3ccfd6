"""The first pass: which rows become samples, in which order, and in which shard.

What a shard needs is in a file of the run, the *store*: for each row its key, the files it names, and its texts. A second
file has the location of each row in the store, in the order of the shards. Memory does not grow with the number of rows.
"""

import json
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from wdsflow.pieces.pieces import END
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.tables import Tables

from .left_out import LeftOut, LeftOutRows
from .media_files import FileRef
from .pack_options import ShardLimit
from .unusable import REPEATED, Unusable

_LENGTHS = Struct("<II")  # of the head of a record, and of its texts
_NUMBERS = 3  # of a row in the file of locations: start, length, bytes in a shard
_AT_ONCE = 16_384  # rows
_READ = 1 << 16  # bytes of the store that are read at once
_COLUMNS = ("number", "rank", "start", "length", "bytes")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

File = tuple[str, str, FileRef]
"""A file of a row: the name of its field, or "" to name it by its type; its column; the file."""


class PlannedRow(NamedTuple):
    """A row that may become a sample."""

    source: int
    number: int
    key: str
    files: list[File]
    texts: list[tuple[str, bytes]]


@dataclass
class PackPlan:
    """The rows of a run, in a scratch folder.

    Attributes:
        rows: rows that were read.
        count: those that may become samples.
        left_out: all others.
        limit: the size of a shard.
        shuffle: the seed of the order, None for that of the table.
        may_repeat: several rows may have the same key.
    """

    scratch: Path
    limit: ShardLimit
    shuffle: int | None
    may_repeat: bool
    rows: int = 0
    count: int = 0
    left_out: LeftOutRows = field(init=False)

    def __post_init__(self) -> None:
        self.left_out = LeftOutRows(self.scratch / "left-out.jsonl")
        self._stack = ExitStack()
        self.store_path, self.locations_path = self.scratch / "rows", self.scratch / "locations"
        self._store = self._stack.enter_context(_new(self.store_path))
        self._locations = self._stack.enter_context(_new(self.locations_path))
        self._at = 0
        self._tables: Tables | None = None
        self._ordered = array("Q")
        self._held: list[tuple[int, int, int, int]] = []
        self._keys: list[str] = []
        self._read = -1
        if self.shuffle is not None or self.may_repeat:
            self._tables = self._stack.enter_context(Tables(self.scratch))
            columns = ", ".join(f"{name} UBIGINT" for name in _COLUMNS)
            self._tables.run(f"CREATE TABLE planned ({columns}, key VARCHAR)")

    def add(self, row: PlannedRow) -> None:
        """Add a row."""
        head = _head([row.source, row.number, row.key, row.files, [(name, len(text)) for name, text in row.texts]])
        texts = b"".join([text for _, text in row.texts])
        self._store.write(_LENGTHS.pack(len(head), len(texts)) + head + texts)
        start, length = self._at, _LENGTHS.size + len(head) + len(texts)
        self._at += length
        size = 0
        for _, _, ref in row.files:
            size += BLOCK + padded(int(ref[1])) if len(ref) > 1 else BLOCK
        for _, text in row.texts:
            size += BLOCK + padded(len(text))
        self.count += 1
        if self._tables is None:
            self._ordered.extend((start, length, size))
        else:
            self._held.append((self.rows - 1, start, length, size))
            self._keys.append(row.key)
        if len(self._held) >= _AT_ONCE or len(self._ordered) >= _AT_ONCE:
            self._flush()

    def leave_out(self, source: int, row: int, why: Unusable) -> None:
        """Count a row that becomes no sample."""
        self.left_out.add(LeftOut(source, row, why.column, why.reason, why.detail, why.value))

    def order(self, key_column: str, names: Sequence[str]) -> None:
        """Leave out rows whose key an earlier row has, and put the others in order. No row is added after this.

        ``names``: those of all tables, for messages.
        """
        self._store.flush()
        self._read = os.open(self.store_path, os.O_RDONLY | os.O_CLOEXEC)
        self._stack.callback(os.close, self._read)
        self._flush()
        if self._tables is not None:
            self._write_ordered(self._tables, key_column, names)
        self._locations.flush()
        self.left_out.close()

    def _flush(self) -> None:
        self._ordered.tofile(self._locations)
        self._ordered = array("Q")
        if self._tables is None or not self._held:
            return
        import numpy as np

        number, *columns = map(np.ascontiguousarray, np.array(self._held, np.uint64).T)
        order = number if self.shuffle is None else _at_random(number, self.shuffle)
        self._tables.add("planned", **dict(zip(_COLUMNS, (number, order, *columns), strict=True)), key=self._keys)
        self._held, self._keys = [], []

    def _write_ordered(self, tables: Tables, key_column: str, names: Sequence[str]) -> None:
        tables.run(
            "CREATE TABLE known AS SELECT *, first_value(start) OVER same AS first,"
            " row_number() OVER same > 1 AS again FROM planned WINDOW same AS (PARTITION BY key ORDER BY number)"
        )
        tables.run("DROP TABLE planned")
        for start, first in tables.rows("SELECT start, first FROM known WHERE again ORDER BY number"):
            row, earlier = self.record(start), self.record(first)
            other = f" of {names[earlier.source]}" if earlier.source != row.source else ""
            detail = f"{row.key!r:.200}, as row {earlier.number:,}{other}"
            self.leave_out(row.source, row.number, Unusable(REPEATED, detail, key_column))
            self.count -= 1
        for batch in tables.batches("SELECT start, length, bytes FROM known WHERE NOT again ORDER BY rank, number"):
            array("Q", [number for row in batch for number in row]).tofile(self._locations)
        tables.run("DROP TABLE known")

    def locations(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, length, bytes) of rows in order."""
        with open(self.locations_path, "rb") as file:
            file.seek(start * _NUMBERS * 8)
            while start < end:
                count = min(_AT_ONCE, end - start)
                numbers = array("Q")
                numbers.fromfile(file, count * _NUMBERS)
                start += count
                yield from zip(*[iter(numbers)] * _NUMBERS, strict=True)

    def record(self, start: int) -> PlannedRow:
        """Return a row of the store."""
        length = _LENGTHS.size + sum(_LENGTHS.unpack(os.pread(self._read, _LENGTHS.size, start)))
        return _row(os.pread(self._read, length, start))

    def raw(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of rows in the store, in order; neighbours are read together."""
        block, at, expected = b"", 0, 0
        for first, length, _ in self.locations(start, end):
            if not at <= first <= at + len(block) - length:
                size = max(length, _READ) if first == expected else length
                block, at = os.pread(self._read, size, first), first
            expected = first + length
            yield block[first - at : expected - at]

    def planned(self, start: int, end: int) -> Iterator[PlannedRow]:
        """Yield rows, in order."""
        return map(_row, self.raw(start, end))

    def bounds(self) -> list[tuple[int, int]]:
        """Return the rows of each shard: from the first up to the second."""
        if self.limit.size is not None:
            return list(self._by_size(self.limit.size))
        shards = -(-self.count // self.limit.samples)
        borders = [number * self.count // shards for number in range(shards + 1)] if shards else []
        return list(pairwise(borders))

    def _by_size(self, most: int) -> Iterator[tuple[int, int]]:
        """Fill shards up to ``most`` bytes; a larger sample is alone in its shard."""
        start, total = 0, len(END)
        for number, (_, _, size) in enumerate(self.locations(0, self.count)):
            if number > start and total + size > most:
                yield start, number
                start, total = number, len(END)
            total += size
        if self.count:
            yield start, self.count

    def close(self) -> None:
        """Close all files."""
        self.left_out.close()
        self._stack.close()


def _row(data: bytes) -> PlannedRow:
    at = _LENGTHS.size + _LENGTHS.unpack_from(data)[0]
    source, number, key, files, sizes = _parsed(data[_LENGTHS.size : at])
    texts: list[tuple[str, bytes]] = []
    for name, size in sizes:
        texts.append((name, data[at : at + size]))
        at += size
    return PlannedRow(source, number, key, files, texts)


def _head(values: list[Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(values)
    except TypeError:
        # Bytes of a path that are not UTF-8 are lone surrogates, which orjson refuses.
        return json.dumps(values).encode()


def _parsed(head: bytes) -> list[Any]:
    import orjson

    try:
        values: list[Any] = orjson.loads(head)
    except ValueError:
        values = json.loads(head)
    return values


def _new(path: Path) -> IO[bytes]:
    return open(path, "wb", buffering=1 << 20)


def _hash(text: str) -> int:
    from xxhash import xxh3_64_intdigest

    return xxh3_64_intdigest(text.encode())


def _at_random(numbers: "NDArray[np.uint64]", seed: int) -> "NDArray[np.uint64]":
    """Return a unique random number for each (splitmix64), which depends only on the seed."""
    import numpy as np

    with np.errstate(over="ignore"):
        x = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(_hash(f"shuffle {seed}"))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        shuffled: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return shuffled
