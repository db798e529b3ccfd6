"""Values of rows in lines: DuckDB sorts rows of any size, because long values are split into parts.

A row without long values is one line. Otherwise it has several, which follow each other: each has a part of every value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .table_values import StoredValue

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 4096  # lines that a reader holds


@dataclass
class Lines:
    """The lines of some rows, as columns.

    Attributes:
        rows: the index of the row of each line.
        starts: the first byte of the part of each value.
        rests: how many lines of the same row follow.
        longest: bytes of a part.
    """

    rows: "NDArray[np.int64]"
    starts: "NDArray[np.int64]"
    rests: "NDArray[np.int64]"
    longest: int

    @staticmethod
    def of(columns: Sequence[Sequence[bytes | None]], longest: int) -> "Lines":
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
            None if rest else column[row] for row, rest in zip(self.rows.tolist(), self.rests.tolist(), strict=True)
        ]


def read_rows(path: Path) -> Iterator[Sequence[StoredValue]]:
    """Yield the values of each row in a Parquet file of lines: their columns are ``rest``, then kind and data of each value."""
    from pyarrow.parquet import ParquetFile

    parts: list[Sequence[StoredValue]] = []
    with ParquetFile(path) as file:
        for batch in file.iter_batches(AT_ONCE, use_threads=False):
            rests, *cells = (column.to_pylist() for column in batch.columns)
            columns = [zip(kinds, data, strict=True) for kinds, data in zip(cells[::2], cells[1::2], strict=True)]
            for rest, values in zip(rests, zip(*columns, strict=True), strict=True):
                parts.append(values)
                if not rest:
                    yield values if len(parts) == 1 else [_whole(column) for column in zip(*parts, strict=True)]
                    parts = []


def _whole(parts: Sequence[StoredValue]) -> StoredValue:
    kind, first = parts[0]
    return kind, None if first is None else b"".join(data or b"" for _, data in parts)
