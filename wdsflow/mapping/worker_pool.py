"""The workers of a run, and how many of them fit into memory."""

import os

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import CachedPss

from .batch_size import COMFORT, Sizer
from .errors import MappingError
from .map_worker import MapWorker
from .messages import MapSetup

# Bytes of room below which a worker can do nothing.
_LEAST = 16 << 20
# Rows that each of several workers has room for, at least.
_ROWS = 2


class WorkerPool:
    """The workers, which share the memory. The first batch of the first one shows how many fit.

    Args:
        setup: the first message to each worker.
        memory: bytes for this process and all workers together.
        most: the most workers.
        sizer: learns the memory of a row.
    """

    def __init__(self, setup: MapSetup, memory: int, most: int, sizer: Sizer) -> None:
        self.setup = setup
        self.memory = memory
        self.most = most
        self.sizer = sizer
        # Growth is noticed a moment later.
        self.usable = memory - max(memory // 20, 16 << 20)
        self.target = 1
        self.workers: list[MapWorker] = []
        self._held = CachedPss()

    def busy(self) -> list[MapWorker]:
        """Return the workers that have a batch."""
        return [worker for worker in self.workers if worker.batch is not None]

    def fill(self, count: int) -> MapWorker | None:
        """Start or end idle workers to have ``count``; return one that is ready for a batch.

        None if none is ready.
        """
        idle = [worker for worker in self.workers if worker.batch is None]
        # Those that take most memory end first.
        idle.sort(key=lambda worker: worker.idle, reverse=True)
        surplus = max(len(self.workers) - count, 0)
        for worker in idle[:surplus]:
            self.drop(worker)
        while len(self.workers) < count:
            self.workers.append(MapWorker(self.setup))
        return next(
            (worker for worker in self.workers if worker.idle and worker.batch is None), None
        )

    def drop(self, worker: MapWorker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.close()

    def room(self, worker: MapWorker, *, alone: bool) -> int:
        """Return by how many bytes a worker may grow; 0 if too few.

        Raises MappingError if there can never be more.
        """
        parent = self._held(os.getpid())
        workers = 1 if alone else self.target
        room = (self.usable - parent) // workers - worker.idle
        if room >= _LEAST:
            return room
        if alone or self.target == 1:
            least = format_size((parent + worker.idle + _LEAST) * 20 // 19 + _LEAST)
            raise MappingError(
                f"{format_size(self.memory)} is too little memory: this process takes {format_size(parent)} by itself, and a"
                f" worker {format_size(worker.idle)}; nothing works below {least}"
            )
        return 0

    def settle(self, worker: MapWorker, batches_left: int | None) -> None:
        """Measure a worker after a batch, and decide how many workers there should be."""
        worker.idle = self._held(worker.pid)
        worker.base = worker.base or worker.idle
        if worker.idle - worker.base > worker.room // 2:
            # It leaks memory.
            self.drop(worker)
        memory = self.usable - self._held(os.getpid())
        most = self.most
        if batches_left is not None:
            most = max(1, min(most, batches_left + len(self.busy())))
        fits = fitting(memory, worker.idle, self.sizer.need, most)
        # Starting another one is not worth it if it would soon have to end.
        self.target = max(
            min(self.target, fits), fitting(memory, worker.idle, self.sizer.need * 1.5, most)
        )


def fitting(memory: int, idle: int, need: float, most: int) -> int:
    """Return how many workers fit into ``memory`` bytes, each with room for two rows.

    At least 1, at most ``most``.

    ``idle``: bytes of a worker without rows.

    >>> fitting(2 << 30, 200 << 20, 60 << 20, 16)
    5
    """
    of_worker = idle + _ROWS * need / COMFORT + 1
    return max(1, min(most, int(memory // of_worker)))
