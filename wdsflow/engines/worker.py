"""A process that works on tasks, one at a time."""

import contextlib
import signal
import threading
from collections.abc import Sequence
from typing import Any

from wdsflow.lazy import leave_pandas_out
from wdsflow.old_objects import old_objects_kept

from .base import Task, Work, WorkerFailure, failure_of
from .mark import Mark, TaskProgress
from .messages import receive, send, take_line
from .peer import Peer
from .retries import TaskDeaths


class Worker:
    """A process that works on one task at a time, and its successors after deaths: see ``retries``.

    ``inherit``: descriptors that the process holds open; ``folder``: where it starts.
    """

    def __init__(
        self, function: Work, inherit: Sequence[int] = (), folder: str | None = None
    ) -> None:
        self._function = function
        self._inherit = tuple(inherit)
        self._folder = folder
        # Workers import this module, too.
        import tempfile

        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        try:
            self._mark = Mark(self._file.fileno())
        except OSError:
            # The disk is full.
            self._file.close()
            raise
        self._peer: Peer | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._task: Any = None

    def work(self, task: Task) -> Any:
        """Return the answer to a task, or WorkerFailure; None if it was stopped."""
        self._task = task
        try:
            return self._answer(task)
        finally:
            self._task = None
            self._mark.reset()

    def under_way(self) -> tuple[Any, TaskProgress] | None:
        """Return the task that is begun, and how much of it is done."""
        task = self._task
        if task is None or not self._mark.is_begun:
            return None
        return task, self._mark.progress

    def _answer(self, task: Task) -> Any:
        deaths = TaskDeaths()
        while not self._stopped:
            peer = self._peer or self._start()
            self._mark.reset()
            with contextlib.suppress(OSError, EOFError):
                return peer.ask((self._function, task))
            status = peer.wait()
            self._discard()
            blamed = deaths.add(self._mark.sample())
            if deaths.too_many:
                return _failure_of_deaths(deaths, status)
            if blamed is not None:
                task = task.without(blamed)
        return None

    def stop(self) -> None:
        """End the process; a thread in ``work`` returns. May be called from another thread."""
        with self._lock:
            self._stopped = True
            if self._peer is not None:
                self._peer.end()

    def close(self) -> None:
        """End the process, and wait for its end and that of all it started."""
        self.stop()
        self._discard()
        self._file.close()

    def _start(self) -> Peer:
        peer = Peer(
            f"from wdsflow.engines.worker import serve; serve({self._mark.fd})",
            inherit=(self._mark.fd, *self._inherit),
            cwd=self._folder,
        )
        with self._lock:
            self._peer = peer
            if self._stopped:
                peer.end()
        return peer

    def _discard(self) -> None:
        with self._lock:
            peer = self._peer
            self._peer = None
        if peer is not None:
            peer.close()


def serve(mark: int) -> None:
    """In the process: work on tasks until the line ends. ``mark``: a descriptor for ``Mark``."""
    # The process that asked decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line()
    leave_pandas_out()
    note = Mark(mark)
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, argument = receive(line)
            note.reset()
            try:
                with old_objects_kept():
                    answer = function(argument, note)
            except Exception as error:  # noqa: BLE001 - sent to the process that asked
                answer = failure_of(error)
            send(line, answer)


def _failure_of_deaths(deaths: TaskDeaths, status: int) -> WorkerFailure:
    """Return the failure of a task on which too many processes have died."""
    position = f" at sample {deaths.last}" if deaths.last >= 0 else ""
    times = f"died {deaths.count} times{position} (exit status {status})"
    return WorkerFailure(f"the process that worked on this shard {times}")
