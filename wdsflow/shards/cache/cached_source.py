"""A shard that is read from its file in the cache, also while that grows, or from its server."""

import os
import time
from collections.abc import Callable

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError, read_fully

from .download import Download

# Seconds between two looks at a file that another process writes.
_LOOK = 0.02
# Seconds in which another process may write nothing; then the shard is read from its server.
_PATIENCE = 20.0


class _PartRemovedError(OSError):
    """Another process removed a part that it does not need. Nothing is wrong with the disk."""


class CachedSource(Source):
    """The bytes of a shard as they are stored.

    A file that grows is written by a download of this process or of another one. If that process is
    killed, this one continues the download. If the disk fails, or another process removes the part,
    the shard is read on from its server. An open file can be read to its end, also after it was
    removed from the cache.

    Args:
        shard: names it.
        size: bytes of the whole shard.
        file: its descriptor, which the source closes.
        download: of this process, that writes it; None: it is whole, or another process writes it.
        path: of the file if it is whole and expected to stay; "" otherwise.
        later_path: of the file once it is whole; "" if it is.
        resume: continues a part with this descriptor that nobody writes; returns None if somebody
            does, or if it is whole. Raises SourceError.
        direct: opens the shard on its server. Raises SourceError.
        report: is called with an error of the disk.
    """

    def __init__(
        self,
        shard: Shard,
        size: int,
        file: int,
        download: Download | None,
        *,
        path: str,
        later_path: str,
        resume: Callable[[int], Download | None],
        direct: Callable[[], Source],
        report: Callable[[OSError], None],
    ) -> None:
        self.url, self.size = shard, size
        self.length: int = size
        self.stored_at, self.has_cheap_reads = path, bool(path)
        self.stored_later_at = later_path
        self._file, self._download = file, download
        self._resume, self._open_direct, self._report = resume, direct, report
        self._available = 0
        self._direct: Source | None = None

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the shard; fewer at its end. Raises ``SourceError``."""
        end = min(offset + size, self.length)
        if offset >= end:
            return b""
        if self._direct is None:
            try:
                return self._from_file(offset, end)
            except SourceError:
                raise
            except _PartRemovedError:
                # The disk is as good as before: the next shard may be kept.
                pass
            except OSError as error:
                self._report(error)
            self._direct = self._open_direct()
        return self._direct.read_at(offset, end - offset)

    def close(self) -> None:
        """Close the file, and the connection if there is one. A download goes on."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._direct is not None:
            self._direct.close()

    def _from_file(self, offset: int, end: int) -> bytes:
        """Return bytes of the file. Raises OSError of the disk, and SourceError of the server."""
        if end > self._available:
            self._wait_for(end)
        data = read_fully(self._file, end - offset, offset)
        if len(data) < end - offset:
            raise OSError(f"a file of the cache ends at byte {offset + len(data):,}")
        self.bytes_read += len(data)
        return data

    def _wait_for(self, end: int) -> None:
        """Wait until the file has bytes up to ``end``.

        Raises OSError of the disk and SourceError of the server.
        """
        latest = time.monotonic() + _PATIENCE
        while True:
            state = os.fstat(self._file)
            if state.st_size > self._available:
                self._available = state.st_size
                latest = time.monotonic() + _PATIENCE
            if self._available >= end:
                return
            if self._download is None:
                self._download = self._resume(self._file)
            if self._download is not None:
                self._wait_for_download(self._download)
            elif not state.st_nlink:
                raise _PartRemovedError
            elif time.monotonic() < latest:
                time.sleep(_LOOK)
            else:
                raise OSError(f"no process has written a part of a shard for {_PATIENCE:g} s")

    def _wait_for_download(self, download: Download) -> None:
        """Wait for a download of this process to write more. Raises its error."""
        if download.error is not None:
            raise download.error
        if download.thread.is_alive():
            with download.changed:
                download.changed.wait(_LOOK)
        else:
            # The shard is whole, or the download was stopped: then it is continued.
            self._download = None
