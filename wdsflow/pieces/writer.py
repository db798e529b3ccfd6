"""Writes pieces to a file, in the background while the next ones are prepared."""

import errno
import mmap
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import naming, writing
from wdsflow.shards.source.base import Piece, Source, SourceChangedError

from .pieces import END, joined

try:
    import fcntl
except ImportError:
    # Not Unix: every file is written through the page cache.
    fcntl = None  # type: ignore[assignment]

# Bytes of the buffer, and of one write; a multiple of any disk's block.
_STEP = 4 << 20


class Sink:
    """Collects bytes in a buffer, and writes it in the background when it is full, while another one is filled.

    An error of the disk is raised by a later call. Before the file is closed, ``end`` or ``close``
    must have returned. Full buffers go to the disk directly (O_DIRECT), because the file is synced
    before it is renamed. That takes half the CPU time, and other files stay in the page cache. The
    rest at the end, and everything on a file system without such writes, is written the ordinary
    way. Errors name ``path``.
    """

    def __init__(self, file: int, path: Path) -> None:
        # Bytes so far.
        self.size = 0
        self._file, self._path = file, path
        self._buffer, self._other = _buffer(), memoryview(b"")
        self._filled = 0
        # Not tried yet.
        self._direct: bool | None = None
        self._thread: ThreadPoolExecutor | None = None
        # The thread's descriptor: if Ctrl-C keeps ``close`` from waiting, it writes to no other
        # file.
        self._own = -1
        self._writing: Future[None] | None = None

    def room(self, most: int) -> memoryview:
        """Return the next free bytes, between one and ``most``; call ``took`` when they are filled."""
        start = self._filled
        return self._buffer[start : start + most]

    def took(self, count: int) -> None:
        """Set how many of the bytes of ``room`` were filled. Raises OSError."""
        self._filled += count
        self.size += count
        if self._filled == _STEP:
            self._write_full()

    def add(self, data: bytes) -> None:
        """Append bytes. Raises OSError."""
        at, start = 0, self._filled
        # Nearly always.
        if (end := start + len(data)) < _STEP:
            self._buffer[start:end] = data
            self._filled = end
            self.size += len(data)
            return
        while at < len(data):
            room = self.room(len(data) - at)
            count = len(room)
            room[:] = data[at : at + count]
            self.took(count)
            at += count

    def _write_full(self) -> None:
        if self._thread is None:
            with naming(self._path):
                self._own = os.dup(self._file)
            self._thread, self._other = ThreadPoolExecutor(1, "wdsflow-write"), _buffer()
            self._direct = _switch(self._own, on=True)
        self._wait()
        try:
            self._writing = self._thread.submit(self._write, self._buffer, self._own)
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error), str(self._path)) from error
        self._buffer, self._other = self._other, self._buffer
        self._filled = 0

    def _wait(self) -> None:
        if self._writing is not None:
            # If it failed, so does every further call.
            self._writing.result()

    def end(self) -> None:
        """Write the rest. Raises OSError."""
        try:
            self._wait()
            self._ordinary(self._file)
            self._write(self._buffer[: self._filled], self._file)
            self._filled = 0
        finally:
            self.close()

    def close(self) -> None:
        """Wait for the write in progress; the rest of the buffer is lost."""
        thread, self._thread = self._thread, None
        if thread is not None:
            # The interpreter ends, or no thread could be started.
            with suppress(RuntimeError):
                thread.submit(os.close, self._own)
            thread.shutdown()

    def _write(self, rest: memoryview, file: int) -> None:
        with naming(self._path):
            while rest:
                try:
                    rest = rest[os.write(file, rest) :]
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._direct:
                        raise
                    self._ordinary(file)

    def _ordinary(self, file: int) -> None:
        if self._direct:
            _switch(file, on=False)
        self._direct = False


def _switch(file: int, *, on: bool) -> bool:
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
    # Aligned to a page, as direct writes require.
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return memoryview(mmap.mmap(-1, _STEP))
    # Memory that could be shared with other processes, the default, takes twice the time.
    memory = mmap.mmap(-1, _STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


# Not on Windows.
_CAN_FILL = hasattr(os, "preadv")


def write_pieces(path: Path, source: Source, pieces: Iterable[Piece]) -> int:
    """Write a tar that consists of ranges of a source and of new bytes, in order, and return its size in bytes.

    Ranges are those of whole members, headers and padding included. Replaces a file of that name,
    in one step. It ends as a tar ends, with two zero blocks. Raises SourceChangedError if the
    source ends early, OSError if the disk fails, and errors of ``pieces``, also at their end; then
    no new file is left.
    """
    with writing(path) as file:
        sink = Sink(file, path)
        try:
            for piece in joined(pieces):
                if isinstance(piece, bytes):
                    sink.add(piece)
                else:
                    copy_range(sink, source, *piece)
            sink.add(END)
            sink.end()
        finally:
            sink.close()
    return sink.size


def copy_range(sink: Sink, source: Source, start: int, end: int) -> None:
    """Append a range of a source to a file. Raises SourceChangedError if the source ends early, OSError."""
    # Nearly always; the same, in less time.
    if source.fd >= 0 and end <= (source.length or 0):
        _fill(sink, source, start, end)
        return
    for origin, part in source.parts(start, end):
        if isinstance(part, bytes):
            sink.add(part)
        else:
            _fill(sink, origin, *part)


def _fill(sink: Sink, source: Source, start: int, end: int) -> None:
    while start < end:
        room = sink.room(end - start)
        if _CAN_FILL and source.fd >= 0:
            count = os.preadv(source.fd, [room], start)
        else:
            data = source.read_at(start, len(room))
            count = len(data)
            room[:count] = data
        if not count:
            raise SourceChangedError.short(start, end - start)
        sink.took(count)
        start += count
