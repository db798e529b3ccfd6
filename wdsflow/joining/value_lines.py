"""Values of rows in lines: DuckDB sorts rows of any size, because long values are split into parts.

A row without long values is one line. Otherwise it has several, which follow each other: each has a
part of every value.
"""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.table_files.parquet_file import ParquetError, ParquetFile

from .table_values import StoredValue

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Lines that a reader holds.
LINES_AT_ONCE = 4096


@dataclass
class Lines:
    """The lines of some rows, as columns.

    Attributes:
        rows: the index of the row of each line.
        starts: the first byte of the part of each value.
        rests: how many lines of the same row follow.
        longest: the most bytes of a part.
    """

    rows: "NDArray[np.int64]"
    starts: "NDArray[np.int64]"
    rests: "NDArray[np.int64]"
    longest: int

    @staticmethod
    def from_columns(columns: Sequence[Sequence[bytes | None]], longest: int) -> "Lines":
        """Return the lines of rows with these columns of values."""
        import numpy as np

        sizes = [[len(data or b"") for data in column] for column in columns]
        counts = np.maximum(-(-np.max(sizes, axis=0) // longest), 1)
        rows = np.repeat(np.arange(len(counts)), counts)
        parts = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Lines(rows, parts * longest, counts[rows] - parts - 1, longest)

    def parts(self, column: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the part of a value that is in each line."""
        parts: list[bytes | None] = []
        for row, start in zip(self.rows.tolist(), self.starts.tolist(), strict=True):
            data = column[row]
            parts.append(None if data is None else data[start : start + self.longest])
        return parts

    def repeated(self, column: Sequence[str]) -> list[str]:
        """Return the value of a row in each of its lines."""
        return [column[row] for row in self.rows.tolist()]

    def at_end(self, column: Sequence[str | None]) -> list[str | None]:
        """Return the value of a row in the last of its lines, and None in the others."""
        return [
            None if rest else column[row]
            for row, rest in zip(self.rows.tolist(), self.rests.tolist(), strict=True)
        ]


def read_rows(path: Path) -> Iterator[Sequence[StoredValue]]:
    """Yield the values of each row in a Parquet file of lines.

    Its columns: how many lines of the row follow, then the kind and the data of each value. Raises
    OSError.
    """
    lines: list[Sequence[object]] = []
    try:
        file = ParquetFile(path)
        for batch in file.batches(file.names, LINES_AT_ONCE):
            for line in batch:
                lines.append(line)
                lines_after = line[0]
                if not lines_after:
                    yield row_from_lines(lines, 1)
                    lines = []
    except ParquetError as error:
        raise OSError(errno.EIO, str(error), str(path)) from None
    if lines:
        raise OSError(errno.EIO, "the file ends within a row", str(path))


def row_from_lines(lines: Sequence[Sequence[Any]], first_cell: int) -> list[StoredValue]:
    """Return the values of a row from its lines.

    From ``first_cell`` on, each line has the kind and the data of each value. A long value is split
    over several lines, and each of its parts has its kind.
    """
    first = lines[0]
    values: list[StoredValue] = []
    for column in range(first_cell, len(first), 2):
        kind, data = first[column], first[column + 1]
        if len(lines) > 1 and data is not None:
            data = b"".join(line[column + 1] or b"" for line in lines)
        values.append((kind, data))
    return values
