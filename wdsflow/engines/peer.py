"""A process of ours: start it, ask it, know its position, and end it with all that it started.

    peer = Peer("from wdsflow.engines.worker import serve; serve(3)", inherit=(3,))
    answer = peer.ask(value)  # raises OSError or EOFError if the process has ended
    status = peer.close()

Start
    A fresh Python that runs some code. It is neither a fork nor a process of multiprocessing: a
    fork copies locks that threads of this process hold, spawn runs the caller's script again where
    that has no ``__main__`` guard, and daemonic processes may have no children.
Talk
    The standard input of the process is a socket, the *line*. ``send`` and ``receive`` exchange
    pickled values on it, in both directions (see ``messages``). The process calls ``take_line``
    first.
Position
    A ``Note`` is shared memory (see ``mark``). The process writes its position there; the other
    side can read it at any time, also after a crash. ``Mark`` is a note of the sample that it is
    at, and of how much of its task is done.
Death
    ``receive`` raises EOFError. ``wait`` returns the exit status, which ``exit_status`` explains.
    Nothing is repeated here: ``retries`` has the policy.
End
    A keeper (see ``keeper``) stands between both sides. It kills the process and all processes that
    it started, in any session, on ``end``, when the process ends, and when this side of the line is
    closed, even by ``kill -9``.

Users: shard workers (``worker``), Ray's driver (``cluster``, without a keeper: it leaves the
cluster first), model servers, map workers, runs of pipelines, and checks of loaders (in forks of
such processes). Decoders are forks with shared memory, started by multiprocessing; they use
``Note`` and ``exit_status``, too.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from .messages import receive, send

# Seconds between two looks at a process.
_PAUSE = 0.02


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
        path = [str(folder) for folder in sys.path]
        if root not in sys.path:
            path.append(root)
        keeper = (
            "from wdsflow.engines.keeper import become_keeper; become_keeper(); " if kept else ""
        )
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
        """Send a value and return the answer.

        Raises OSError or EOFError if the process has ended.
        """
        send(self.line, value)
        return receive(self.line)

    def has_ended(self) -> bool:
        """Return whether the process has ended.

        Something that it started may still hold the line open.
        """
        with self._lock:
            if self._process.returncode is not None or not hasattr(os, "waitid"):
                return self._process.poll() is not None
            try:
                # The status stays, for ``wait``.
                status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                # This program ignores SIGCHLD, or waits for all its children.
                return True
            return status is not None

    def ends_within(self, seconds: float | None) -> bool:
        """Wait at most so many seconds, None for any time; return whether the process has ended."""
        until = float("inf") if seconds is None else time.monotonic() + seconds
        while not self.has_ended():
            if time.monotonic() >= until:
                return False
            time.sleep(max(0.0, min(_PAUSE, until - time.monotonic())))
        return True

    def wait(self) -> int:
        """Wait until the process and all that it started have ended, and return its status.

        The status is negative for a signal.
        """
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
