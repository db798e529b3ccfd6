"""The engine that starts processes only if they are faster.

Their start takes longer than a small amount of work.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .base import Engine, T, Work
from .local import LocalEngine
from .mark import TaskProgress
from .own_process import InProcessEngine
from .site import processes_are_faster


class InProcessFirstEngine(Engine[T]):
    """Works in this process until processes would be quicker with the rest, then in processes.

    ``size``: the bytes of a task, which predict its time; ``total``: those of all tasks.
    """

    def __init__(
        self,
        function: Work,
        workers: int,
        size: Callable[[T], int],
        total: int,
        inherit: Sequence[int] = (),
    ) -> None:
        self._in_process = InProcessEngine[T](function)
        self._processes: LocalEngine[T] | None = None
        self._start = partial(LocalEngine[T], function, workers, inherit)
        self._size = size
        # Bytes of tasks.
        self._remaining = total
        self._done = 0
        # CPU seconds that those done took.
        self._used = 0.0

    @property
    def most_under_way(self) -> int:
        """1 in this process."""
        return 1 if self._processes is None else self._processes.most_under_way

    def submit(self, task: T) -> None:
        """Take a task, and decide where to work on it: in this process no other is under way."""
        if self._processes is None and self._should_start_processes():
            self._processes = self._start()
        self._current().submit(task)

    def next(self) -> tuple[T, Any]:
        """Wait for an answer."""
        if self._processes is not None:
            return self._processes.next()
        start = time.process_time()
        task, answer = self._in_process.next()
        self._used += time.process_time() - start
        size = self._size(task)
        self._done += size
        self._remaining -= size
        return task, answer

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the tasks that are begun."""
        return self._current().under_way()

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._processes is not None:
            self._processes.close()
        self._in_process.close()

    def _current(self) -> LocalEngine[T] | InProcessEngine[T]:
        return self._in_process if self._processes is None else self._processes

    def _should_start_processes(self) -> bool:
        return self._done > 0 and processes_are_faster(self._used, self._done, self._remaining)
