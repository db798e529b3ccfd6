"""Rows that become no sample: counted, with examples; all of them are lines of a file."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

# Rows of each reason that are shown.
_EXAMPLES = 3


class LeftOut(NamedTuple):
    """A row that becomes no sample.

    Attributes:
        source: the number of its table or folder.
        row: its number in it, from 1 on.
        column: the column at fault; "" for none.
        reason: a short one, by which rows are counted.
        detail: what is wrong with this row.
        value: the path in its cell.
    """

    source: int
    row: int
    column: str
    reason: str
    detail: str
    value: str = ""


Examples = dict[str, list[LeftOut]]
"""The first rows of each reason."""


def add_example(examples: Examples, row: LeftOut) -> None:
    """Add a row to the examples of its reason, if these are few."""
    rows = examples.setdefault(row.reason, [])
    if len(rows) < _EXAMPLES:
        rows.append(row)


class LeftOutRows:
    """Counts rows that are left out, and writes them to a file.

    The file does not exist if there are none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.examples: Examples = {}
        self._file: IO[str] | None = None
        path.unlink(missing_ok=True)

    def add(self, row: LeftOut) -> None:
        """Count a row, and write it. Raises OSError."""
        self.counts[row.reason] += 1
        add_example(self.examples, row)
        if self._file is None:
            self.path.parent.mkdir(exist_ok=True)
            self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """End the file, which is then on the disk. Raises OSError."""
        if self._file is not None:
            with self._file as file:
                self._file = None
                file.flush()
                os.fsync(file.fileno())

    def all(self) -> Iterator[LeftOut]:
        """Yield all rows, in order."""
        self.close()
        return read_left_out(self.path)


def read_left_out(path: Path) -> Iterator[LeftOut]:
    """Yield the rows of a file, in order; none if there is no file. Raises OSError."""
    if path.exists():
        with open(path, encoding="utf-8") as lines:
            yield from (LeftOut(*json.loads(line)) for line in lines)
