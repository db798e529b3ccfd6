"""The first pass: which rows become samples, in which order, and in which shard.

What a shard needs of its rows is in files of the run, see ``stored_rows``. Memory does not grow
with the number of rows.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.pieces.pieces import END
from wdsflow.pieces.random_order import random_numbers
from wdsflow.shards.tar.tar_header import BLOCK, padded

from ..files.media_files import size_of
from ..left_out import LeftOut, LeftOutRows
from ..pack_options import ShardLimit
from ..unusable import REPEATED, Unusable
from .stored_rows import PlannedRow, RowsWriter, StoredRows

if TYPE_CHECKING:
    from wdsflow.tables import Tables

# Numbers that are in memory.
_AT_ONCE = 16_384
# Of a planned row: its number, the number by which it is ordered, its location in the files of the
# run, and the bytes of its sample.
_COLUMNS = ("number", "rank", "start", "length", "bytes")


@dataclass
class PackPlan:
    """The rows of a run, in a scratch folder.

    Attributes:
        limit: the size of a shard.
        shuffle: the seed of the order, None for that of the table.
        may_repeat: several rows may have the same key.
        rows: rows that were read.
        count: those that may become samples.
        left_out: all others.
        stored: reads those that may become samples, after ``order_rows``.
    """

    scratch: Path
    limit: ShardLimit
    shuffle: int | None
    may_repeat: bool
    rows: int = 0
    count: int = 0
    left_out: LeftOutRows = field(init=False)
    stored: StoredRows = field(init=False)

    def __post_init__(self) -> None:
        self.left_out = LeftOutRows(self.scratch / "left-out.jsonl")
        self.stored = StoredRows(self.scratch)
        self._writer = RowsWriter(self.scratch)
        self._stack = ExitStack()
        self._stack.callback(self._writer.close)
        self._tables: Tables | None = None
        self._ordered = array("Q")
        self._unflushed: list[tuple[int, int, int, int]] = []
        self._keys: list[str] = []
        if self.shuffle is not None or self.may_repeat:
            self._tables = self._stack.enter_context(_tables(self.scratch))
            columns = ", ".join(f"{name} UBIGINT" for name in _COLUMNS)
            self._tables.run(f"CREATE TABLE planned ({columns}, key VARCHAR)")

    def add(self, row: PlannedRow) -> None:
        """Add a row. Raises OSError."""
        start, length = self._writer.add(row)
        size = 0 if self.limit.size is None else _size_of(row)
        self.count += 1
        if self._tables is None:
            self._ordered.extend((start, length, size))
        else:
            self._unflushed.append((self.rows - 1, start, length, size))
            self._keys.append(row.key)
        if len(self._unflushed) >= _AT_ONCE or len(self._ordered) >= _AT_ONCE:
            self._flush()

    def leave_out(self, source: int, row: int, error: Unusable) -> None:
        """Count a row that becomes no sample."""
        self.left_out.add(
            LeftOut(source, row, error.column, error.reason, error.detail, error.value)
        )

    def order_rows(self, key_column: str, names: Sequence[str]) -> None:
        """Leave out rows that repeat an earlier key, and put the others in order.

        No rows can be added after this.

        ``names``: those of all tables, for messages.
        """
        self._flush()
        self._writer.flush()
        if self._tables is not None:
            self._write_ordered(self._tables, key_column, names)
        self._writer.close()
        self.left_out.close()

    def _flush(self) -> None:
        """Write the rows in memory to the file of locations or the table that orders them."""
        self._writer.append_locations(self._ordered)
        self._ordered = array("Q")
        if self._tables is None or not self._unflushed:
            return
        import numpy as np

        columns = np.array(self._unflushed, np.uint64).T
        number, start, length, size = map(np.ascontiguousarray, columns)
        rank = number
        if self.shuffle is not None:
            rank = random_numbers(number + np.uint64(1), f"shuffle {self.shuffle}")
        self._tables.add(
            "planned",
            number=number,
            rank=rank,
            start=start,
            length=length,
            bytes=size,
            key=self._keys,
        )
        self._unflushed = []
        self._keys = []

    def _write_ordered(self, tables: "Tables", key_column: str, names: Sequence[str]) -> None:
        """Leave out repeated keys, and write the locations of the other rows by rank."""
        tables.run(
            "CREATE TABLE marked AS SELECT *, first_value(start) OVER same AS first,"
            " row_number() OVER same > 1 AS again FROM planned WINDOW same AS (PARTITION BY key ORDER BY number)"
        )
        tables.run("DROP TABLE planned")
        repeated = tables.rows("SELECT start, first FROM marked WHERE again ORDER BY number")
        for start, first in repeated:
            row = self.stored.row_at(start)
            earlier = self.stored.row_at(first)
            table = f" of {names[earlier.source]}" if earlier.source != row.source else ""
            detail = f"{row.key!r:.200}, as row {earlier.number:,}{table}"
            self.leave_out(row.source, row.number, Unusable(REPEATED, detail, key_column))
            self.count -= 1
        ordered = tables.batches(
            "SELECT start, length, bytes FROM marked WHERE NOT again ORDER BY rank, number"
        )
        for batch in ordered:
            self._writer.append_locations(array("Q", chain.from_iterable(batch)))
        tables.run("DROP TABLE marked")

    def bounds(self) -> list[tuple[int, int]]:
        """Return the rows of each shard: from the first up to the second."""
        if self.limit.size is not None:
            return list(self._bounds_by_size(self.limit.size))
        if not self.count:
            return []
        # Rounded up.
        shards = -(-self.count // self.limit.samples)
        borders = [number * self.count // shards for number in range(shards + 1)]
        return list(pairwise(borders))

    def _bounds_by_size(self, most: int) -> Iterator[tuple[int, int]]:
        """Fill shards up to ``most`` bytes; a larger sample is alone in its shard."""
        start = 0
        total = len(END)
        for number, (_, _, size) in enumerate(self.stored.locations(0, self.count)):
            if number > start and total + size > most:
                yield start, number
                start = number
                total = len(END)
            total += size
        if self.count:
            yield start, self.count

    def close(self) -> None:
        """Close all files."""
        self.left_out.close()
        self._stack.close()


def _tables(folder: Path) -> "Tables":
    from wdsflow.tables import Tables

    return Tables(folder)


def _size_of(row: PlannedRow) -> int:
    """Return the bytes of a sample in a shard."""
    sizes = [len(text) for _, text in row.texts]
    sizes += [size_of(ref) for _, _, ref in row.files]
    return sum(BLOCK + padded(size) for size in sizes)
