"""Files of rows, each pickled, with its length before it."""

import pickle
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_LENGTH = struct.Struct("<Q")


def write_rows(path: str, rows: Iterable[object]) -> int:
    """Write rows to a new file, and return their number."""
    count = 0
    with Path(path).open("xb") as file:
        for row in rows:
            data = pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
            file.write(_LENGTH.pack(len(data)))
            file.write(data)
            count += 1
    return count


def read_rows(path: Path) -> Iterator[object]:
    """Yield the rows of a file lazily."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            (length,) = _LENGTH.unpack(head)
            yield pickle.loads(file.read(length))  # noqa: S301 - written by our own process
