"""A thread that downloads a shard to its cache file, while others read what has arrived."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.text.secrets import redact

from .entry import CacheEntry
from .folder import CacheFolder
from .locks import unlock

# Bytes that are written at a time: those of the first request must not wait for the second.
_PIECE = 256 << 10


class Download:
    """Writes a shard from the end of its part on; when it is whole, gives it the name of a shard.

    Args:
        folder: of the cache.
        entry: of the part.
        file: its descriptor, locked; the download closes it.
        stored: the bytes on the server; the download closes it.
        count: is called with the number of bytes that were written.

    Raises OSError if the process can start no thread; then the file and ``stored`` stay open.

    Attributes:
        error: why it failed: a SourceError of the server, or another OSError of the disk or the
            process.
        changed: notified when there are more bytes, and at the end.
    """

    def __init__(
        self,
        folder: CacheFolder,
        entry: CacheEntry,
        file: int,
        stored: Source,
        count: Callable[[int], None],
    ) -> None:
        self._folder, self._entry, self._file = folder, entry, file
        self._stored, self._count = stored, count
        self._stop = threading.Event()
        self.error: OSError | None = None
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._run, name="wdsflow-cache", daemon=True)
        try:
            self.thread.start()
        except RuntimeError as error:
            raise OSError(f"the download of a shard did not start: {error}") from error

    def stop(self) -> None:
        """End soon. The part stays: the next download of this shard continues it."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._write()
        except SourceChangedError as error:
            self.error = error
            self._folder.remove(self._entry)
        except SourceError as error:
            self.error = error
        except OSError as error:
            self.error = error
            # What is there takes up space on a disk that may be full.
            with suppress(OSError):
                self._folder.remove(self._entry)
        except Exception as error:  # noqa: BLE001
            # Without an error, readers would wait, and start the download again and again. The part
            # stays: this may be the end of the process, where no thread can be started any more.
            # Libraries name urls in their exceptions.
            self.error = OSError(f"the download of a shard failed: {redact(repr(error))}")
        finally:
            unlock(self._file)
            os.close(self._file)
            self._stored.close()
            with self.changed:
                self.changed.notify_all()

    def _write(self) -> None:
        at = os.fstat(self._file).st_size
        while at < self._entry.size:
            if self._stop.is_set():
                return
            data = self._stored.read_at(at, _PIECE)
            if not data:
                raise SourceChangedError.short(at, self._entry.size - at)
            at = self._append(data, at)
            self._count(len(data))
        # A name must not survive a power failure that its bytes do not.
        os.fsync(self._file)
        self._folder.complete_part(self._entry)

    def _append(self, data: bytes, at: int) -> int:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, at)
            at += written
            view = view[written:]
            with self.changed:
                self.changed.notify_all()
        return at
