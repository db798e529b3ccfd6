"""The engine of one machine: worker processes, each fed by a thread."""

import queue
import threading
from collections.abc import Sequence
from typing import Any

from .base import Engine, T, Work
from .mark import TaskProgress
from .worker import Worker


class LocalEngine(Engine[T]):
    """Works in processes, each fed by a thread. ``inherit``: descriptors that workers hold open."""

    def __init__(self, function: Work, workers: int, inherit: Sequence[int] = ()) -> None:
        self._function = function
        self._limit = workers
        self._inherit = inherit
        self._todo: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[T, Any] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker] = []
        self._waiting = 0

    @property
    def most_under_way(self) -> int:
        """Twice as many tasks as processes: none waits for the next."""
        return 2 * self._limit

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.put(task)
        self._waiting += 1
        if len(self._threads) < min(self._waiting, self._limit):
            worker = self.start_worker()
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            self._workers.append(worker)
            self._threads.append(thread)
            thread.start()

    def start_worker(self) -> Worker:
        """Return a new worker."""
        return Worker(self._function, self._inherit)

    def next(self) -> tuple[T, Any]:
        """Wait for an answer."""
        item = self._done.get()
        if isinstance(item, BaseException):
            raise item
        self._waiting -= 1
        return item

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the tasks that workers have begun."""
        tasks = []
        # Another thread may start a worker meanwhile.
        for worker in list(self._workers):
            task = worker.under_way()
            if task is not None:
                tasks.append(task)
        return tasks

    def close(self) -> None:
        """End the workers, then the threads that wait for them."""
        for _ in self._threads:
            self._todo.put(None)
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.close()

    def _serve(self, worker: Worker) -> None:
        try:
            while (task := self._todo.get()) is not None:
                answer = worker.work(task)
                if answer is None:
                    return
                self._done.put((task, answer))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._done.put(error)
