"""The rows that one shard has in Energon's database, in a temporary file until they are inserted.

A database needs the shards in their order, and is slower than the walks over them: rows that wait
would fill the memory.
"""

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wdsflow.shards.atomic import os_errors_named

# Samples: some 500 KB.
_CHUNK = 4096

# Key, number of the sample in its shard, offset, size in the tar.
SampleRow = tuple[str, int, int, int]
# Number of the sample, field, offset of the contents, size.
PartRow = tuple[int, str, int, int]


class RowChunk(NamedTuple):
    """Some neighbouring samples, and all members of these."""

    samples: list[SampleRow]
    parts: list[PartRow]


def chunks_of(file: BinaryIO) -> Iterator[RowChunk]:
    """Yield the rows of one shard, in order, from a file that ``SampleRows`` wrote.

    It reads from the file's current position.
    """
    while True:
        samples, parts = pickle.load(file)  # noqa: S301 - written by this process
        if not samples:
            return
        yield RowChunk(samples, parts)


class SampleRows:
    """Collects the rows of one shard; ``finish`` follows the last member, ``close`` the last use.

    ``file`` has them then, from its start on.

    Args:
        folder: for the temporary file, which has no name.

    Raises:
        OSError: the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with os_errors_named(folder):
            self.file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - see close
        self._samples: list[SampleRow] = []
        self._parts: list[PartRow] = []
        # Of the sample whose end is not known yet.
        self._key, self._start = "", 0
        self._count = 0

    def begin(self, key: str, start: int) -> None:
        """Begin the next sample; the one before ends where this one starts."""
        if self._count:
            self._add_sample(start)
            if len(self._samples) == _CHUNK:
                self._write_chunk()
        self._key, self._start = key, start
        self._count += 1

    def add_member(self, field: str, offset: int, size: int) -> None:
        """Add a member of the current sample."""
        self._parts.append((self._count - 1, field, offset, size))

    def finish(self, end: int) -> None:
        """End the last sample at ``end``."""
        if self._count:
            self._add_sample(end)
        if self._samples:
            self._write_chunk()
        # The mark of the end.
        self._write_chunk()
        with os_errors_named(self._folder):
            self.file.seek(0)

    def close(self) -> None:
        """Remove the file."""
        # What is not written yet need not be: on a full disk it cannot.
        with suppress(OSError):
            self.file.close()

    def _add_sample(self, end: int) -> None:
        self._samples.append((self._key, self._count - 1, self._start, end - self._start))

    def _write_chunk(self) -> None:
        with os_errors_named(self._folder):
            pickle.dump((self._samples, self._parts), self.file, pickle.HIGHEST_PROTOCOL)
        self._samples, self._parts = [], []
