"""The engine that works in the process that calls it."""

import collections
from typing import Any

from wdsflow.old_objects import old_objects_kept

from .base import Engine, T, Work, failure_of
from .mark import Mark, TaskProgress


class InProcessEngine(Engine[T]):
    """Works in the process that asks."""

    most_under_way = 1

    def __init__(self, function: Work) -> None:
        self._function = function
        self._todo: collections.deque[T] = collections.deque()
        self._mark = Mark()
        self._task: T | None = None

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.append(task)

    def next(self) -> tuple[T, Any]:
        """Work on the oldest task."""
        self._task = task = self._todo.popleft()
        try:
            with old_objects_kept():
                return task, self._function(task, self._mark)
        except Exception as error:  # noqa: BLE001 - reported as by a worker
            return task, failure_of(error)
        finally:
            self._task = None
            self._mark.reset()

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the task that is begun."""
        task = self._task
        if task is None or not self._mark.is_begun:
            return []
        return [(task, self._mark.progress)]

    def close(self) -> None:
        """Free the memory of the mark."""
        self._mark.close()
