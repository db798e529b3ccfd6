"""A process of ours: start it, ask it, know its position and how it ended, end it with all that it started.

    peer = Peer("from wdsflow.engines.local import serve; serve(3)", inherit=(3,))
    answer = peer.ask(value)  # raises OSError or EOFError if the process has ended
    status = peer.close()

Start
    A fresh Python that runs some code. It is neither a fork nor a process of multiprocessing: a fork copies locks that
    threads of this process hold, spawn runs the caller's script again where that has no ``__main__`` guard, and
    daemonic processes may have no children.
Talk
    The standard input of the process is a socket, the *line*. ``send`` and ``receive`` exchange pickled values on it,
    in both directions. The process calls ``take_line`` first.
Position
    A ``Note`` is shared memory. The process writes its position there; the other side can read it at any time, also
    after a crash. ``Mark`` is a note of the sample that it is at, and of how much of its task is done.
Death
    ``receive`` raises EOFError. ``wait`` returns the exit status: ``ending``, ``killed_by`` and ``likely_memory`` explain it.
    Nothing is repeated here: ``retries`` has the policy.
End
    A keeper (see ``keeper``) stands between both sides. It kills the process and all processes that it started,
    in any session, on ``end``, when the process ends, and when this side of the line is closed, even by ``kill -9``.

Users: shard workers (``local``), Ray's driver (``cluster``, without a keeper: it leaves the cluster
first), model servers, map workers, runs of pipelines, and checks of loaders (in forks of such
processes).
Decoders are forks with shared memory, started by multiprocessing; they have ``Note`` and the
account of a death from here.
"""

import contextlib
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

_SIZE = struct.Struct("<Q")
_NUMBER, _PROGRESS = struct.Struct("<q"), struct.Struct("<qd")
# Seconds between two looks at a process.
_PAUSE = 0.02


class Connected(Protocol):
    """One end of a socket or pipe."""

    def fileno(self) -> int:
        """Return its descriptor."""


class Peer:
    """A process and the line to it. Any thread may call ``end``.

    Args:
        code: Python code that the process runs.
        kept: whether a keeper ends all that the process starts.
        environment: variables; those of this process take precedence.
        inherit: descriptors that the process holds open.
        stderr: where its standard error goes; None: where that of this process goes.
        cwd: its working directory.
    """

    def __init__(
        self,
        code: str,
        *,
        kept: bool = True,
        environment: Mapping[str, str] | None = None,
        inherit: Sequence[int] = (),
        stderr: IO[bytes] | None = None,
        cwd: str | None = None,
    ) -> None:
        import socket

        # The other side needs neither of them.
        import subprocess

        root = os.path.dirname(os.path.realpath(sys.modules["wdsflow"].__path__[0]))
        path = [str(place) for place in sys.path] + [root] * (root not in sys.path)
        keeper = "from wdsflow.engines.keeper import lead; lead(); " if kept else ""
        self._kept = kept
        # The number of a reaped process may be reused.
        self._lock = threading.Lock()
        self.line: socket.socket
        self.line, theirs = socket.socketpair()
        with theirs:
            # Not by PYTHONPATH: a command that a shard or a score runs would inherit it, and may be
            # of another Python.
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {keeper}{code}"],
                env={**(environment or {}), **os.environ},
                pass_fds=tuple(inherit),
                # Ctrl-C is for this process, which ends the others.
                start_new_session=True,
                stdin=theirs.fileno(),
                stderr=stderr,
                cwd=cwd,
            )
        self.pid = self._process.pid

    def send(self, value: object) -> None:
        """Send a value. Raises OSError if the process has ended."""
        send(self.line, value)

    def receive(self) -> Any:
        """Wait for a value. Raises EOFError if the process has ended."""
        return receive(self.line)

    def ask(self, value: object) -> Any:
        """Send a value and return the answer. Raises OSError or EOFError if the process has ended."""
        send(self.line, value)
        return receive(self.line)

    def gone(self) -> bool:
        """Return whether the process has ended. Something that it started may still hold the line open."""
        with self._lock:
            if self._process.returncode is None and hasattr(os, "waitid"):
                try:
                    return (
                        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                        is not None
                    )
                except ChildProcessError:
                    # This program ignores SIGCHLD, or waits for all its children.
                    return True
            return self._process.poll() is not None

    def ends_within(self, seconds: float | None) -> bool:
        """Wait at most so many seconds, None for any time; return whether the process has ended."""
        until = float("inf") if seconds is None else time.monotonic() + seconds
        while not self.gone():
            if time.monotonic() >= until:
                return False
            time.sleep(max(0.0, min(_PAUSE, until - time.monotonic())))
        return True

    def wait(self) -> int:
        """Wait until the process and all that it started have ended; return its status, negative for a signal."""
        if hasattr(os, "waitid") and self._process.returncode is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            return self._process.wait()

    def end(self) -> None:
        """Kill the process and all that it started, without waiting for their end."""
        with self._lock:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGTERM if self._kept else signal.SIGKILL)

    def close(self) -> int:
        """Kill the process and all that it started, wait for their end, and return its status."""
        try:
            self.end()
            return self.wait()
        finally:
            # Also where Ctrl-C ends the waiting.
            self.line.close()


def send(line: Connected, value: object) -> None:
    """Write a value; arrays are not copied. Raises OSError if the other side has ended."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, 5, buffer_callback=buffers.append)
    parts = [memoryview(data), *(buffer.raw() for buffer in buffers)]
    head = b"".join([_SIZE.pack(len(parts)), *(_SIZE.pack(part.nbytes) for part in parts)])
    fd = line.fileno()
    for part in (memoryview(head), *parts):
        start = 0
        while start < part.nbytes:
            start += os.write(fd, part[start:])


def receive(line: Connected) -> Any:
    """Read a value that a process of ours wrote. Raises EOFError if the other side has ended."""
    fd = line.fileno()
    (count,) = _SIZE.unpack(_read(fd, _SIZE.size))
    sizes = [size for (size,) in _SIZE.iter_unpack(_read(fd, count * _SIZE.size))]
    data = _read(fd, sizes[0])
    rest, buffers, start = memoryview(_read(fd, sum(sizes[1:]))), [], 0
    for size in sizes[1:]:
        buffers.append(rest[start : start + size])
        start += size
    return pickle.loads(data, buffers=buffers)  # noqa: S301 - of our own process


def _read(fd: int, size: int) -> bytearray:
    found = bytearray(size)
    view, start = memoryview(found), 0
    while start < size:
        try:
            count = os.readv(fd, [view[start:]])
        except OSError:
            # It ended without reading all.
            count = 0
        if not count:
            raise EOFError("the other end is gone")
        start += count
    return found


def take_line(*, prints: bool = False) -> IO[bytes]:
    """In the process: return the line. Standard input is empty from now on; output goes to stderr unless it ``prints``."""
    line = os.fdopen(os.dup(0), "rb", buffering=0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if not prints:
        os.dup2(2, 1)
    return line


def when_gone(line: Connected | int, act: Callable[[], object]) -> None:
    """Call a function, in a thread, when the other side of a line has ended."""
    poll = select.poll()
    poll.register(line, 0)

    def watch() -> None:
        while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            pass
        act()

    threading.Thread(target=watch, name="wdsflow-watch", daemon=True).start()


class Note:
    """Values in shared memory, at a file descriptor or, at -1, of this process alone; ``layout`` is one of ``struct``."""

    def __init__(self, layout: str, fd: int) -> None:
        self.fd, self._layout = fd, struct.Struct(layout)
        if fd >= 0 and os.fstat(fd).st_size < mmap.PAGESIZE:
            os.ftruncate(fd, mmap.PAGESIZE)
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)

    def write(self, *values: float | bytes) -> None:
        """Replace the values."""
        self._layout.pack_into(self._memory, 0, *values)

    def read(self) -> tuple[Any, ...]:
        """Return the values that were written last."""
        return self._layout.unpack_from(self._memory)

    def close(self) -> None:
        """Unmap the memory; the descriptor belongs to the caller."""
        self._memory.close()


class TaskProgress(NamedTuple):
    """How much of a task is done. ``share``: from 0 to 1."""

    samples: int
    share: float


class Mark(Note):
    """The number of the sample that a process is at, -1 for none; and how much of its task is done."""

    def __init__(self, fd: int = -1) -> None:
        super().__init__("<qqd", fd)
        self.begin()

    def begin(self) -> None:
        """Note that a task begins, or that none is under way."""
        self.write(-1, 0, 0.0)

    def set(self, number: int) -> None:
        """Set the sample that begins."""
        _NUMBER.pack_into(self._memory, 0, number)

    def get(self) -> int:
        """Return the number that was set last."""
        return int(self.read()[0])

    def settle(self, samples: int, share: float) -> None:
        """Set how many samples of the task are done, and which share of it."""
        _PROGRESS.pack_into(self._memory, _NUMBER.size, samples, share)

    @property
    def progress(self) -> TaskProgress:
        """How much of the task is done."""
        return TaskProgress(*self.read()[1:])

    @property
    def is_begun(self) -> bool:
        """Whether the first sample of the task has begun."""
        number, samples, _ = self.read()
        return bool(number >= 0 or samples > 0)


def killed_by(status: int | None) -> str:
    """Return the name of the signal that ended a process, "" if none did.

    >>> killed_by(-9), killed_by(-40), killed_by(1)
    ('SIGKILL', 'signal 40', '')
    """
    if status is None or status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:
        # One that programs may use for anything.
        return f"signal {-status}"


def ending(status: int, by_itself: str = "ended with status") -> str:
    """Return how a process ended.

    >>> ending(-11), ending(3)
    ('was killed by SIGSEGV', 'ended with status 3')
    """
    name = killed_by(status)
    return f"was killed by {name}" if name else f"{by_itself} {status}"


def likely_memory(status: int, what: str) -> str:
    """Return the likely cause of SIGKILL, "" for another end; ``what``: "a process"."""
    often = f": often the system's way to end {what} that takes too much memory"
    return often if status == -signal.SIGKILL else ""
