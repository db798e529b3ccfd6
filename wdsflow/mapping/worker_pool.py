"""The workers of a run, and how many of them fit into memory."""

import os

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import CachedPss

from .batch_size import TARGET_FILL, BatchSizer
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
        max_workers: the most workers.
        sizer: learns the memory of a row.
    """

    def __init__(self, setup: MapSetup, memory: int, max_workers: int, sizer: BatchSizer) -> None:
        self.setup = setup
        self.memory = memory
        self.max_workers = max_workers
        self.sizer = sizer
        # Growth is noticed a moment later.
        self.usable_memory = memory - max(memory // 20, 16 << 20)
        self.target = 1
        self.workers: list[MapWorker] = []
        self._pss = CachedPss()

    def busy(self) -> list[MapWorker]:
        """Return the workers that have a batch."""
        return [worker for worker in self.workers if worker.batch is not None]

    def resize(self, count: int) -> None:
        """Start or end idle workers to have ``count``."""
        idle = [worker for worker in self.workers if worker.batch is None]
        # Those that take most memory end first.
        idle.sort(key=lambda worker: worker.idle_memory, reverse=True)
        surplus = max(len(self.workers) - count, 0)
        for worker in idle[:surplus]:
            self.end_worker(worker)
        while len(self.workers) < count:
            self.workers.append(MapWorker(self.setup))

    def ready_worker(self) -> MapWorker | None:
        """Return a worker that is ready for a batch, None if none is."""
        return next(
            (worker for worker in self.workers if worker.idle_memory and worker.batch is None), None
        )

    def end_worker(self, worker: MapWorker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.close()

    def room(self, worker: MapWorker, *, alone: bool) -> int:
        """Return by how many bytes a worker may grow; 0 if too few.

        Raises MappingError if there can never be more.
        """
        parent = self._pss(os.getpid())
        workers = 1 if alone else self.target
        room = (self.usable_memory - parent) // workers - worker.idle_memory
        if room >= _LEAST:
            return room
        if alone or self.target == 1:
            least = format_size((parent + worker.idle_memory + _LEAST) * 20 // 19 + _LEAST)
            raise MappingError(
                f"{format_size(self.memory)} is too little memory: this process takes {format_size(parent)} by itself, and a"
                f" worker {format_size(worker.idle_memory)}; nothing works below {least}"
            )
        return 0

    def update_target(self, worker: MapWorker, batches_left: int | None) -> None:
        """Measure a worker after a batch, and decide how many workers there should be."""
        worker.idle_memory = self._pss(worker.pid)
        worker.first_idle_memory = worker.first_idle_memory or worker.idle_memory
        if worker.idle_memory - worker.first_idle_memory > worker.room // 2:
            # It leaks memory.
            self.end_worker(worker)
        memory = self.usable_memory - self._pss(os.getpid())
        most = self.max_workers
        if batches_left is not None:
            most = max(1, min(most, batches_left + len(self.busy())))
        fits = workers_that_fit(memory, worker.idle_memory, self.sizer.row_bytes, most)
        # Starting another one is not worth it if it would soon have to end.
        self.target = max(
            min(self.target, fits),
            workers_that_fit(memory, worker.idle_memory, self.sizer.row_bytes * 1.5, most),
        )


def workers_that_fit(memory: int, idle: int, row_bytes: float, most: int) -> int:
    """Return how many workers fit into ``memory`` bytes, each with room for two rows.

    At least 1, at most ``most``.

    ``idle``: bytes of a worker without rows.

    >>> workers_that_fit(2 << 30, 200 << 20, 60 << 20, 16)
    5
    """
    of_worker = idle + _ROWS * row_bytes / TARGET_FILL + 1
    return max(1, min(most, int(memory // of_worker)))
