"""Sample locations as rows of four numbers, in files that are appended to and read in pieces."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# An array of shape (samples, 4), whose columns are KEY, START, END and ORIGIN.
Rows = NDArray[np.uint64]

# KEY: xxh3 of the key. START, END: the first byte of the sample in its input, and the byte after
# its last one. ORIGIN: the number of the input, and in its lowest bits the number of fields.
KEY, START, END, ORIGIN = range(4)
COLUMNS = 4
FIELDS_BITS = 16
MOST_FIELDS = (1 << FIELDS_BITS) - 1
# Rows that are read at a time.
PIECE = 1 << 16

_BYTES_OF_ROW = 8 * COLUMNS


def origin_of(number: int, fields: int) -> int:
    """Return the value of ``ORIGIN`` for a sample of the input ``number``.

    At most 65,535 fields are counted.

    >>> origin_of(3, 2) == (3 << 16) + 2
    True
    """
    return number << FIELDS_BITS | min(fields, MOST_FIELDS)


def inputs_of(rows: Rows) -> NDArray[np.uint64]:
    """Return the number of the input of each row."""
    return rows[:, ORIGIN] >> np.uint64(FIELDS_BITS)


def fields_of(rows: Rows) -> NDArray[np.uint64]:
    """Return the number of fields of each row."""
    return rows[:, ORIGIN] & np.uint64(MOST_FIELDS)


class RowFile:
    """A file of rows, 32 bytes a sample. It exists from the first row on. Raises OSError.

    Attributes:
        count: the number of its rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = path.stat().st_size // _BYTES_OF_ROW if path.exists() else 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        if len(rows):
            with open(self.path, "ab") as file:
                file.write(np.ascontiguousarray(rows).data)
            self.count += len(rows)

    def read(self, start: int, end: int) -> Rows:
        """Return the rows from ``start`` up to ``end``, or up to the last one."""
        count = max(0, min(end, self.count) - start)
        if not count:
            return np.empty((0, COLUMNS), np.uint64)
        values = np.fromfile(self.path, np.uint64, count * COLUMNS, offset=start * _BYTES_OF_ROW)
        if len(values) != count * COLUMNS:
            raise OSError(f"{self.path} is shorter than it was")
        return values.reshape(-1, COLUMNS)

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``end``, ``PIECE`` at a time."""
        end = self.count if end is None else end
        for piece_start in range(start, end, PIECE):
            yield self.read(piece_start, min(end, piece_start + PIECE))

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
        self.count = 0
