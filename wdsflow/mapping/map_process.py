"""One worker process, from the side of the process that asks."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from wdsflow.engines.family import end_family, start_family
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import descendants, held
from wdsflow.text.words import signal_name

from .map_messages import Done, Failed, MapOrder, MapSetup, RowBatch

# Memory that is given back counts as free: large blocks go back to the system at once, small ones when they can.
_GIVE_BACK = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}


class MapWorker:
    """A fresh Python that maps batches. It is no fork: the caller's threads, models and locks stay where they are."""

    def __init__(self, setup: MapSetup) -> None:
        ours, theirs = socket.socketpair()
        # What is in the folder where this started is not a module for the worker by default.
        start = "sys.path[:] = filter(None, sys.path); from wdsflow.mapping.map_worker import serve"
        with theirs:
            self._process = start_family(
                f"{start}; serve({theirs.fileno()})",
                environment=_GIVE_BACK,
                inherit=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        self.line = Connection(ours.detach())
        self.pid = self._process.pid
        self.batch: RowBatch | None = None
        self.room = 0  # bytes by which it may grow
        self.idle = 0  # bytes that it takes between two batches; 0 until it has begun
        self.base = 0  # resident bytes after its first batch; 0 until then
        self.killed = ""  # why it was killed
        self._status: int | None = None
        self._lock = threading.Lock()  # a process number that is given back may be somebody else's
        with contextlib.suppress(OSError):  # it died already; its answer will say so
            self.line.send(setup)

    def ask(self, batch: RowBatch, path: Path, room: int) -> None:
        """Hand over a batch."""
        self.batch, self.room = batch, room
        with contextlib.suppress(OSError):
            self.line.send(MapOrder(batch, str(path), room))

    def answer(self) -> Done | Failed | int:
        """Receive what there is: the resident bytes when it has begun, or what became of a batch."""
        try:
            answer: Any = self.line.recv()
        except (EOFError, OSError):
            return self.death()
        assert isinstance(answer, (int, Done, Failed))
        return answer

    def gone(self) -> bool:
        """Say whether it ended. Its line does not tell as long as somebody whom it started holds that open."""
        with self._lock:
            if self._status is None and hasattr(os, "waitid"):
                try:
                    return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
                except ChildProcessError:  # this program ignores SIGCHLD, or waits for all its children
                    return True
            return self._status is not None or self._process.poll() is not None

    def death(self) -> Failed:
        """Wait for its end, end what it started, and return why it ended."""
        status = self._reap()
        return Failed("memory" if self.killed else "died", self.killed or _death(status))

    def takes(self) -> int:
        """Return the bytes that it and those it started take now."""
        return held(self.pid) + sum(map(held, descendants(self.pid)))

    def kill(self, why: str = "") -> None:
        """Kill it, and what it started."""
        with self._lock:
            if self._status is None:
                self.killed = self.killed or why
                end_family(self._process)

    def close(self) -> None:
        """Kill it, and forget it."""
        self.kill()
        self._reap()
        self.line.close()

    def _reap(self) -> int:
        """Wait for its end, and of all that it started, and return its status."""
        with self._lock:
            if self._status is None:
                self._status = self._process.wait()
            return self._status


def _death(status: int) -> str:
    if status >= 0:
        return f"its process ended by itself (exit status {status})"
    often = ": often the system's way to end a process that takes too much memory" if status == -signal.SIGKILL else ""
    return f"its process was killed by {signal_name(-status)}{often}"


def overrun(size: int) -> str:
    """Return why a worker is killed that lets the processes take more than they may."""
    return f"it took more memory than is left of {format_size(size)}"
