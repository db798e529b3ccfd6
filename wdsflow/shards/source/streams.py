"""Sources that are read forward only: compressed files, and the output of commands."""

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import chain

from wdsflow.shards.shard import PIPE, Shard
from wdsflow.text.install import install_packages

from .base import FIRST, HISTORY, NEXT, Source, SourceError, StreamFault
from .decompress import (
    CODECS,
    PIECE,
    UNPACK,
    CompressedStream,
    DamagedStream,
    Raw,
    UnsupportedStream,
    compression_of,
    starts_another_stream,
    unpack_command,
)

# Bytes.
_TAIL = 8

# Held while a command is started, and while this process is forked: a process that is forked in
# between would keep pipes of the command open, whose end is then never seen.
_starting = threading.Lock()
# Commands that run, by the number of their process; with the number of the process that started
# them, and its thread.
_running: dict[int, "tuple[subprocess.Popen[bytes], int, threading.Thread]"] = {}
# Runs before the command, in its group, and kills all of it when the other end of its input is
# closed, however this process ends.
GUARD = "exec 3<&0 </dev/null; (read _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec 3<&-\n"
# Threads that may no longer run commands.
_stopped: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


class ForwardSource(Source):
    """A stream of bytes, decompressed if necessary, which keeps the latest bytes.

    It ends where Python's tarfile would end: after the first of several compressed streams, and
    before a damaged buffer. ``continue_past_end`` continues after the first stream. ``close`` is
    called once; it may return why the sender failed.
    """

    is_seekable = False

    def __init__(
        self,
        url: Shard,
        raw: Raw,
        start: bytes,
        *,
        size: int | None = None,
        close: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.url, self.size, self.compression = url, size, compression_of(start)
        self.bytes_read = len(start)
        self._raw, self._close = raw, close
        if self.compression == "zst" and find_spec("zstandard") is None:
            self.close()
            raise SourceError(
                "needs-library", "zstd shards need zstandard", install_packages("zstandard")
            )
        # Bytes, and the offset of the first.
        self._held, self._from = bytearray(), 0
        self._more = self._stream(start)
        # Start of another stream.
        self._next = b""
        # The last bytes that were read, as stored.
        self._tail = start
        # Bytes of the tar that checksums prove right.
        self._proven = 0
        self._joined = False

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on.

        The offset may be at most ``HISTORY`` bytes before that of the latest request. Raises
        ``SourceError``.
        """
        self._fill(offset, size)
        start = offset - self._from
        if start < 0:
            raise SourceError("io", "a compressed or streamed shard cannot be read backwards")
        with memoryview(self._held) as held:
            data = bytes(held[start : start + size])
        self._drop(offset)
        return data

    def join_streams(self) -> None:
        """Read all streams as one, as Arrow does.

        A truncated stream, or bytes that are not a stream, are then an error.
        """
        self._joined = True

    def continue_past_end(self) -> bool:
        """Continue with the stream after the first, if there is one."""
        if not self._next:
            return False
        start, self._next = self._next, b""
        self.length, self.damage, self.raises_at_end, self.is_truncated = None, None, False, False
        self._more = self._stream(start)
        return True

    def drain(self) -> None:
        """Unpack the rest, so that all checksums are compared."""
        at = self._from + len(self._held)
        while self.compression is not None and (
            (data := self.read_at(at, PIECE)) or self.continue_past_end()
        ):
            at += len(data)

    def close(self) -> None:
        """Release all resources."""
        close, self._close = self._close, lambda: None
        close()

    def _fill(self, offset: int, size: int) -> None:
        while self.length is None and self._from + len(self._held) < offset + size:
            piece = next(self._more, b"")
            self._held += piece
            if not piece:
                self.length = self._from + len(self._held)
            self._drop(offset)

    def _drop(self, offset: int) -> None:
        surplus = min(offset - HISTORY - self._from, len(self._held))
        if surplus > 0:
            del self._held[:surplus]
            self._from += surplus

    def _read(self) -> bytes:
        data = self._raw()
        self.bytes_read += len(data)
        self._tail = (self._tail + data[-_TAIL:])[-_TAIL:]
        return data

    def _stream(self, start: bytes) -> Iterator[bytes]:
        """Yield non-empty pieces of the tar until a stream ends, and note why it ends."""
        make = CODECS.get(self.compression)
        if make is None:
            yield from filter(None, chain((start,), iter(self._read, b"")))
            self._note_failed_sender()
            return
        stream = make(self._read, start)
        try:
            yield from filter(None, stream.pieces())
        except DamagedStream as damage:
            self.damage, self.raises_at_end = str(damage), True
            path = self.url.path
            if not isinstance(damage, UnsupportedStream):
                if self._from + len(self._held):
                    self._note_fault(str(damage), stream.proven)
            elif path is not None and self.compression is not None:
                self.damage += f"{UNPACK}{unpack_command(path, self.compression)}"
            return
        directly = stream.bytes_after() if stream.complete else b""
        after = self._past_padding(directly)
        another = self.compression is not None and starts_another_stream(after, self.compression)
        self._note_stream_faults(stream, after, another=another)
        if self._joined and (directly or stream.wrong or not stream.complete):
            if another and not stream.wrong:
                yield from self._stream(after)
                return
            self.damage, self.raises_at_end = (
                stream.wrong or "the stream is cut, or bytes follow that are none",
                True,
            )
            return
        if stream.raises:
            self.damage, self.raises_at_end = (
                f"bytes after the {self.compression} stream make tarfile raise EOFError",
                True,
            )
        if not stream.complete:
            self.damage, self.is_truncated = f"the {self.compression} stream is cut", True
        elif another:
            self._next = after
            self.damage = (
                f"another {self.compression} stream follows, which Python's tarfile does not read"
            )
            return
        if not after:
            self._note_failed_sender()

    def _note_stream_faults(self, stream: CompressedStream, after: bytes, *, another: bool) -> None:
        """Note faults of a stream that was unpacked to its end, or of the bytes after it."""
        if stream.wrong:
            self._note_fault(f"damaged {stream.name} stream: {stream.wrong}", stream.proven)
        elif not stream.complete and stream.is_complete_but_damaged(self._tail):
            self._note_fault(
                f"damaged {stream.name} stream: it does not end where the file ends", stream.proven
            )
        self._proven += stream.proven
        if after and not another:
            self._note_fault(
                f"damaged {stream.name} file: the bytes after the stream are not another stream"
            )

    def _past_padding(self, after: bytes) -> bytes:
        """Return the bytes after zero padding: at least the start of another stream."""
        while after and not after.strip(b"\0"):
            after = self._read()
        after = after.lstrip(b"\0")
        while after and len(after) < _TAIL and (more := self._read()):
            after += more
        return after

    def _note_fault(self, detail: str, proven: int = 0) -> None:
        """Note the first fault. ``proven``: bytes of the latest stream that are still right."""
        if self.fault is None:
            self.fault = StreamFault(self._proven + proven, detail)

    def _note_failed_sender(self) -> None:
        """Note it if the bytes end because their sender failed."""
        close, self._close = self._close, lambda: None
        if trouble := close():
            self.damage, self.raises_at_end = (
                f"{self.damage}: {trouble}" if self.is_truncated else trouble,
                True,
            )


class CommandStopped(Exception):
    """``end_commands`` killed the command while it was read: the shard is unknown."""


def open_pipe(shard: Shard) -> Source:
    """Run the command of a ``pipe:`` url in a shell and read its output. Raises ``SourceError``."""
    command = shard.exact.removeprefix(PIPE)
    try:
        with _starting:
            process = subprocess.Popen(  # noqa: S602 - a shell command is what the user asked for, by flag
                GUARD + command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
    except OSError as error:
        raise SourceError("io", str(error)) from None
    output, held = process.stdout, process.stdin
    assert output is not None
    assert held is not None
    thread, at_end = threading.current_thread(), False
    _running[process.pid] = process, os.getpid(), thread
    # Stopped before the command was noted; a later ``end_commands`` finds it.
    if thread in _stopped:
        end_commands(thread)

    def read(size: int = NEXT) -> bytes:
        nonlocal at_end
        data = output.read(size)
        if process.pid not in _running:
            close()
            raise CommandStopped
        at_end = len(data) < size
        return data

    def close() -> str:
        """Kill the command if output is left, and return why it failed, "" if it did not."""
        output.close()
        try:
            status = process.wait(timeout=10 if at_end else 0)
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            status = process.wait()
        if not held.closed:
            # The guard: processes that were forked meanwhile may hold its input, too.
            _kill(process.pid)
            held.close()
        _running.pop(process.pid, None)
        return f"the command ended with status {status}" if status else ""

    return ForwardSource(shard, read, read(FIRST), close=close)


@atexit.register
def end_commands(thread: threading.Thread | None = None) -> None:
    """Kill the commands started by a thread of this process; None kills those of all threads.

    Afterwards, that thread can start no other commands.

    A command that waits for storage would outlive this process.
    """
    if thread is not None:
        _stopped.add(thread)
    for number, (process, owner, starter) in list(_running.items()):
        if owner == os.getpid() and thread in {None, starter}:
            _running.pop(number, None)
            if process.poll() is None:
                _kill(number)


def _kill(number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(number, signal.SIGKILL)


os.register_at_fork(
    before=_starting.acquire,
    after_in_parent=_starting.release,
    after_in_child=_starting.release,
)
