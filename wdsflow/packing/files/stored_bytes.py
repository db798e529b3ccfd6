"""The bytes of images that were in cells of a table, in a file of the run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from wdsflow.shards.source.base import read_fully

from .media_files import FIRST, FileRef, Opened, Read, Rest, offset_of, size_of


class StoredBytes:
    """A file of bytes, written in the first pass over the tables and read in the second.

    Another process can read it as well.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, 0
        self._writing: IO[bytes] | None = None
        self._reading: IO[bytes] | None = None

    def __reduce__(self) -> tuple[type["StoredBytes"], tuple[Path]]:
        return StoredBytes, (self._path,)

    def add(self, data: bytes) -> FileRef:
        """Append bytes. Raises OSError."""
        from xxhash import xxh3_64_hexdigest

        if self._writing is None:
            self._writing = open(self._path, "wb", buffering=FIRST)  # noqa: SIM115 - closed by flush
        self._writing.write(data)
        self._size += len(data)
        return [self._size - len(data), len(data), xxh3_64_hexdigest(data)]

    def flush(self) -> None:
        """Prepare for reading; nothing is added after this. Raises OSError."""
        if self._writing is not None:
            self._writing.close()
            self._writing = None
            self._reading = self._opened()

    def open(self, ref: FileRef, most: int) -> Opened:
        """Read at most so many first bytes. Raises OSError."""
        start, size = offset_of(ref), size_of(ref)
        first = read_fully(self._file, min(size, most), start)
        if len(first) == size:
            return Opened(size, first)
        missing = size - len(first)
        return Opened(
            size, first, Rest(partial(self._open_at, start + len(first)), missing, str(self._path))
        )

    @property
    def _file(self) -> int:
        """The descriptor for reading. Raises OSError."""
        # In another process, which reads in one thread.
        if self._reading is None:
            self._reading = self._opened()
        return self._reading.fileno()

    def _opened(self) -> IO[bytes]:
        return open(self._path, "rb", buffering=0)

    @contextmanager
    def _open_at(self, start: int) -> Iterator[Read]:
        at = start

        def read(most: int) -> bytes:
            nonlocal at
            data = os.pread(self._file, most, at)
            at += len(data)
            return data

        yield read

    def close(self) -> None:
        """Close the file."""
        self.flush()
        if self._reading is not None:
            self._reading.close()
            self._reading = None
