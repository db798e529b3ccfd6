"""A worker process and its successors.

A worker that dies (an image library that crashes, the out-of-memory killer) costs its task another try. If it dies
again at the same sample, that sample is named in the next try, and quarantined by it.
"""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from .base import Task, Trouble, Work
from .child_process import receive, send
from .family import end_family, start_family
from .site import Mark

_MOST_DEATHS = 12  # for one task


class Process:
    """Works on one task at a time. ``inherit``: descriptors that the worker holds open; ``folder``: where it starts."""

    def __init__(self, function: Work, inherit: Sequence[int] = (), folder: str | None = None) -> None:
        self._function, self._inherit, self._folder = function, tuple(inherit), folder
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._mark = Mark(self._file.fileno())
        self._worker: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def work(self, task: Task) -> Any:
        """Return the answer to a task, or Trouble; None if it was stopped."""
        deaths: list[int] = []
        while not self._stopped:
            worker = self._worker or self._start()
            self._mark.set(-1)
            answer = self._ask(worker, task)
            if answer is not None:
                return answer
            status = worker.wait()
            self._discard()
            at = self._mark.get()
            if at >= 0 and at in deaths:
                task = task.without(at)
            deaths.append(at)
            if len(deaths) > _MOST_DEATHS or deaths.count(-1) > 1 or deaths.count(at) > 2:
                return _blamed(status, len(deaths), at)
        return None

    def stop(self) -> None:
        """Let the worker end; whoever waits for it ends. May be called from another thread, as ``end``."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                end_family(self._worker)

    def end(self) -> None:
        """Wait until the worker that was stopped has ended with all that it started."""
        with self._lock:
            worker = self._worker
        if worker is not None:
            worker.wait()

    def close(self) -> None:
        """Let everything go."""
        self.stop()
        self.end()
        self._discard()
        self._file.close()

    def _ask(self, worker: "subprocess.Popen[bytes]", task: Task) -> Any:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            send(worker.stdin, (self._function, task))
            return receive(worker.stdout)
        except (OSError, EOFError):
            return None

    def _start(self) -> "subprocess.Popen[bytes]":
        worker = start_family(
            f"from wdsflow.engines.task_worker import serve; serve({self._mark.fd})",
            inherit=(self._mark.fd, *self._inherit),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder,
        )
        with self._lock:
            self._worker = worker
            if self._stopped:
                end_family(worker)
        return worker

    def _discard(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is None:
            return
        end_family(worker)
        try:
            worker.wait()
        finally:  # Ctrl-C ends the waiting, too
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def _blamed(status: int, times: int, sample: int) -> Trouble:
    where = f" at sample {sample}" if sample >= 0 else ""
    return Trouble(f"the process that worked on this shard died {times} times{where} (exit status {status})")
