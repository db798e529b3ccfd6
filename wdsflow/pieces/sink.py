"""A file that is written in the background while its next bytes are prepared."""

import errno
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import os_errors_named

try:
    import fcntl
except ImportError:
    # Not Unix: every file is written through the page cache.
    fcntl = None  # type: ignore[assignment]

# Bytes of the buffer, and of one write; a multiple of any disk's block.
_STEP = 4 << 20


class Sink:
    """Collects bytes in a buffer, and writes full buffers in the background.

    Another buffer is filled meanwhile.

    An error of the disk is raised by a later call. Before the file is closed, ``write_rest`` or
    ``close`` must have returned. Full buffers go to the disk directly (O_DIRECT), because the file
    is synced before it is renamed. That takes half the CPU time, and other files stay in the page
    cache. The rest at the end, and everything on a file system without such writes, is written the
    ordinary way. Errors name ``path``.
    """

    def __init__(self, file: int, path: Path) -> None:
        # Bytes so far.
        self.size = 0
        self._file = file
        self._path = path
        # One is filled while the other is written.
        self._buffer = _buffer()
        self._other = memoryview(b"")
        self._filled = 0
        # Whether writes are direct; None before the first attempt.
        self._direct: bool | None = None
        self._thread: ThreadPoolExecutor | None = None
        # The thread's descriptor: if Ctrl-C keeps ``close``
        # from waiting, it writes to no other file.
        self._thread_file = -1
        self._writing: Future[None] | None = None

    def free_buffer(self, most: int) -> memoryview:
        """Return the next free bytes of the buffer, between one and ``most``.

        Call ``advance`` when they are filled.
        """
        start = self._filled
        return self._buffer[start : start + most]

    def advance(self, count: int) -> None:
        """Set how many of the bytes of ``free_buffer`` were filled. Raises OSError."""
        self._filled += count
        self.size += count
        if self._filled == _STEP:
            self._write_full()

    def add(self, data: bytes) -> None:
        """Append bytes. Raises OSError."""
        start = self._filled
        end = start + len(data)
        # Nearly always.
        if end < _STEP:
            self._buffer[start:end] = data
            self._filled = end
            self.size += len(data)
            return
        position = 0
        while position < len(data):
            room = self.free_buffer(len(data) - position)
            count = len(room)
            room[:] = data[position : position + count]
            self.advance(count)
            position += count

    def _write_full(self) -> None:
        """Write the full buffer in the background, and continue with the other one."""
        if self._thread is None:
            with os_errors_named(self._path):
                self._thread_file = os.dup(self._file)
            self._thread = ThreadPoolExecutor(1, "wdsflow-write")
            self._other = _buffer()
            self._direct = _switch_direct(self._thread_file, on=True)
        self._wait()
        try:
            self._writing = self._thread.submit(self._write, self._buffer, self._thread_file)
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error), str(self._path)) from error
        self._buffer, self._other = self._other, self._buffer
        self._filled = 0

    def _wait(self) -> None:
        if self._writing is not None:
            # If it failed, so does every further call.
            self._writing.result()

    def write_rest(self) -> None:
        """Write the rest. Raises OSError."""
        try:
            self._wait()
            self._end_direct(self._file)
            self._write(self._buffer[: self._filled], self._file)
        finally:
            self.close()

    def close(self) -> None:
        """Wait for the write in progress; the rest of the buffer is lost."""
        thread = self._thread
        self._thread = None
        if thread is not None:
            # The interpreter ends, or no thread could be started.
            with suppress(RuntimeError):
                thread.submit(os.close, self._thread_file)
            thread.shutdown()

    def _write(self, data: memoryview, file: int) -> None:
        """Write bytes, directly as long as the file system can. Raises OSError."""
        with os_errors_named(self._path):
            while data:
                try:
                    data = data[os.write(file, data) :]
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._direct:
                        raise
                    self._end_direct(file)

    def _end_direct(self, file: int) -> None:
        """Write the ordinary way from here on."""
        if self._direct:
            _switch_direct(file, on=False)
        self._direct = False


def _switch_direct(file: int, *, on: bool) -> bool:
    """Switch direct writes on or off; return whether they are on."""
    flag = getattr(os, "O_DIRECT", 0)
    with suppress(OSError, AttributeError):
        if not flag:
            return False
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        fcntl.fcntl(file, fcntl.F_SETFL, flags | flag if on else flags & ~flag)
        return on
    return False


def _buffer() -> memoryview:
    """Return a buffer that is aligned to a page, as direct writes require."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return memoryview(mmap.mmap(-1, _STEP))
    # Memory that could be shared with other processes, the default, takes twice the time.
    memory = mmap.mmap(-1, _STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)
