"""The files that rows name: what is common to folders of this machine, zips and object stores.

``find`` is quick, and refuses names that lead elsewhere. It returns a ``FileRef``, which JSON can
hold; ``open`` reads it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from wdsflow.shards.source.base import SourceChangedError

# Bytes of a file that are in memory at once.
FIRST = 1 << 20

FileRef = list[str | int]
"""Name, size in bytes, and a mark that changes with the file; of a file in a store the name alone.

Of bytes that were in a cell: the offset in ``StoredBytes``, their size and their hash.
"""
Read = Callable[[int], bytes]
"""Returns at most so many of the next bytes of a file."""


def is_stored(ref: FileRef) -> bool:
    """Return whether the bytes of a file were in a cell of a table."""
    return isinstance(ref[0], int)


def path_of(ref: FileRef) -> str:
    """Return the name of a file; "" for bytes that were in a cell."""
    return "" if is_stored(ref) else str(ref[0])


def offset_of(ref: FileRef) -> int:
    """Return the offset in ``StoredBytes`` of bytes that were in a cell."""
    return int(ref[0])


def size_of(ref: FileRef) -> int:
    """Return the size of a file in bytes; 0 for one in a store, whose size is not known yet."""
    return int(ref[1]) if len(ref) > 1 else 0


def change_mark_of(ref: FileRef) -> str | int:
    """Return the mark that changes with a file: a time, a checksum or a hash."""
    return ref[2]


class Rest:
    """The bytes of a file after its first ones, exactly as many as expected, in pieces.

    The file is open only while they are read.

    Raises SourceChangedError if there are fewer.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Read]], missing: int, name: str
    ) -> None:
        self._opened, self._missing, self._name = opened, missing, name

    def __iter__(self) -> Iterator[bytes]:
        missing = self._missing
        with self._opened() as read:
            while missing > 0:
                data = read(min(missing, FIRST))
                if not data:
                    raise SourceChangedError(f"{self._name} is shorter than it was")
                missing -= len(data)
                yield data


class Opened(NamedTuple):
    """A file whose first bytes were read.

    Its size in bytes, the first bytes, and the rest, if there is any.
    """

    size: int
    first: bytes
    rest: Rest | None = None


class MediaFiles(Protocol):
    """Where files are."""

    has_sizes: bool
    """Whether ``find`` knows sizes, and that a file exists."""
    travels: bool
    """Whether it can be sent to another process."""
    passed_over: Counter[str]
    """What ``names`` did not yield, by reason; complete at its end."""

    def find(self, name: str) -> FileRef:
        """Return the file of a name, which is relative to the root. Raises Unusable."""

    def open(self, ref: FileRef, most: int) -> Opened:
        """Read at most so many first bytes of a file. Raises Unusable, SourceError."""

    def name_of(self, ref: FileRef) -> str:
        """Return the name of a file below the root."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files below the root, in any order. Raises SourceError."""

    def close(self) -> None:
        """Close what is open."""
