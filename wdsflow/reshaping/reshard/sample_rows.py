"""Where samples are, as rows of numbers in files: 32 bytes a sample, read in pieces, whatever their number."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.uint64]  # (samples, 4): KEY, START, END, PLACE

KEY, START, END, PLACE = range(4)  # hash of the key; first byte, byte after the last; input << 16 | number of fields
COLUMNS = 4
WIDTH = 8 * COLUMNS  # bytes of a row
PIECE = 1 << 16  # rows that are read at a time


class RowFile:
    """A file of rows, appended to and read in pieces. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = path.stat().st_size // WIDTH if path.exists() else 0
        self._held: Rows | None = None

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        if len(rows):
            with open(self.path, "ab") as file:
                file.write(np.ascontiguousarray(rows).data)
            self.count += len(rows)

    def read(self, start: int, end: int) -> Rows:
        """Return rows from ``start`` up to ``end``."""
        count = max(0, min(end, self.count) - start)
        if not count:
            return np.empty((0, COLUMNS), np.uint64)
        if self._held is not None:
            return self._held[start : start + count]
        found: Rows = np.fromfile(self.path, np.uint64, count * COLUMNS, offset=start * WIDTH).reshape(-1, COLUMNS)
        if len(found) != count:
            raise OSError(f"{self.path} is shorter than it was")
        return found

    def pieces(self, start: int = 0, end: int | None = None, most: int = PIECE) -> Iterator[Rows]:
        """Yield rows from ``start`` up to ``end``, at most so many at a time."""
        end = self.count if end is None else end
        for at in range(start, end, most):
            yield self.read(at, min(end, at + most))

    def hold(self) -> None:
        """Read on from the same file, also if another one gets its name or none has it; nothing is appended any more."""
        if self.count:
            self._held = np.memmap(self.path, np.uint64, "r", shape=(self.count, COLUMNS))

    def replace(self, pieces: Iterable[Rows]) -> None:
        """Take as many other rows in place of those that are there, which may be read meanwhile."""
        new = RowFile(self.path.with_suffix(".new"))
        new.remove()
        for rows in pieces:
            new.append(rows)
        if new.count != self.count:
            raise RuntimeError(f"{self.count} samples were to be arranged, and there are {new.count}")
        if new.count:
            new.path.replace(self.path)

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
        self.count = 0


def rows_of(numbers: Any) -> Rows:
    """Return rows from the numbers of an ``array('Q')``."""
    return np.frombuffer(numbers, np.uint64).reshape(-1, COLUMNS)


def inputs_of(rows: Rows) -> NDArray[np.uint64]:
    """Return the number of the input of each row."""
    return rows[:, PLACE] >> np.uint64(16)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well mixed numbers, a different one for each (splitmix64)."""
    with np.errstate(over="ignore"):
        x = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))
