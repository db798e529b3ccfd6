"""Engines of one machine: several processes, or the one that asks."""

import collections
import queue
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from wdsflow.engines.base import Engine, T, Work, trouble_of
from wdsflow.engines.site import Mark

from .worker_process import Process


class LocalEngine(Engine[T]):
    """Works in processes, each fed by a thread. ``inherit``: descriptors that workers hold open."""

    def __init__(self, function: Work, workers: int, inherit: Sequence[int] = ()) -> None:
        self._function, self._workers, self._inherit = function, workers, inherit
        self._todo: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[T, Any] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._processes: list[Process] = []
        self._waiting = 0

    @property
    def width(self) -> int:
        """Twice as many tasks as processes: none waits for the next."""
        return 2 * self._workers

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.put(task)
        self._waiting += 1
        if len(self._threads) < min(self._waiting, self._workers):
            process = Process(self._function, self._inherit)
            self._processes.append(process)
            self._threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
            self._threads[-1].start()

    def next(self) -> tuple[T, Any]:
        """Wait for an answer."""
        item = self._done.get()
        if isinstance(item, BaseException):
            raise item
        self._waiting -= 1
        return item

    def close(self) -> None:
        """End the processes; threads that wait for them end."""
        for _ in self._threads:
            self._todo.put(None)
        for process in self._processes:
            process.stop()
        for process in self._processes:
            process.end()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.close()

    def _serve(self, process: Process) -> None:
        try:
            while (task := self._todo.get()) is not None:
                answer = process.work(task)
                if answer is None:
                    return
                self._done.put((task, answer))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._done.put(error)


class OwnProcess(Engine[T]):
    """Works in the process that asks."""

    width = 1

    def __init__(self, function: Work) -> None:
        self._function = function
        self._todo: collections.deque[T] = collections.deque()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._mark = Mark(self._file.fileno())

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.append(task)

    def next(self) -> tuple[T, Any]:
        """Work on the oldest task."""
        task = self._todo.popleft()
        try:
            return task, self._function(task, self._mark)
        except Exception as error:  # noqa: BLE001 - told as a worker would
            return task, trouble_of(error)

    def close(self) -> None:
        """Let everything go."""
        self._file.close()
