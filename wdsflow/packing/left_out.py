"""Rows that become no sample: counted, with examples; all of them are lines of a file."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

# Of each reason.
_EXAMPLES = 3


class LeftOut(NamedTuple):
    """A row that becomes no sample: table, number from 1 on, column, reason, what is wrong, and the path in its cell."""

    source: int
    row: int
    column: str
    reason: str
    detail: str
    value: str = ""


Examples = dict[str, list[LeftOut]]
"""The first rows of each reason."""


def add_example(examples: Examples, left: LeftOut) -> None:
    """Add a row to the examples of its reason, if these are few."""
    known = examples.setdefault(left.reason, [])
    if len(known) < _EXAMPLES:
        known.append(left)


class LeftOutRows:
    """Counts rows that are left out, and writes them to a file, which does not exist if there are none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.examples: Examples = {}
        self._file: IO[str] | None = None
        path.unlink(missing_ok=True)

    def add(self, left: LeftOut) -> None:
        """Note a row. Raises OSError."""
        self.counts[left.reason] += 1
        add_example(self.examples, left)
        if self._file is None:
            self.path.parent.mkdir(exist_ok=True)
            self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close
        self._file.write(json.dumps(left) + "\n")

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
