"""The workers of a run: how many there are, what each may take, and which of them waits for a batch."""

import os

from wdsflow.mapping.sizing import Sizer, fitting
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import HeldMemory

from .map_messages import MappingError, MapSetup
from .map_process import MapWorker

_LEAST = 16 << 20  # bytes of room below which a worker can do nothing


class Team:
    """Shares the memory among workers. There is one until its first batch tells how many fit."""

    def __init__(self, setup: MapSetup, memory: int, most: int, sizer: Sizer) -> None:
        self.setup, self.memory, self.most, self.sizer = setup, memory, most, sizer
        # Something may grow for a moment before it is noticed.
        self.usable = memory - max(memory // 20, 16 << 20)
        self.target = 1
        self.workers: list[MapWorker] = []
        self._held = HeldMemory()

    def busy(self) -> list[MapWorker]:
        """Return the workers that have a batch."""
        return [worker for worker in self.workers if worker.batch is not None]

    def waiting(self) -> MapWorker | None:
        """Return a worker that has begun and has no batch."""
        return next((worker for worker in self.workers if worker.idle and worker.batch is None), None)

    def fill(self, count: int) -> None:
        """Start and end workers until there are so many; those that have a batch stay."""
        spare = [worker for worker in self.workers if worker.batch is None]
        for worker in sorted(spare, key=lambda worker: worker.idle, reverse=True)[: max(len(self.workers) - count, 0)]:
            self.drop(worker)
        while len(self.workers) < count:
            self.workers.append(MapWorker(self.setup))

    def drop(self, worker: MapWorker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.close()

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()

    def room(self, worker: MapWorker, *, alone: bool) -> int:
        """Return by how many bytes a worker may grow. Raises MappingError if that is next to nothing."""
        here = self._held(os.getpid())
        room = (self.usable - here) // (1 if alone else self.target) - worker.idle
        if room >= _LEAST:
            return room
        if alone or self.target == 1:
            least = format_size((here + worker.idle + _LEAST) * 20 // 19 + _LEAST)
            raise MappingError(
                f"{format_size(self.memory)} is too little memory: this process takes {format_size(here)} by itself, and a"
                f" worker {format_size(worker.idle)}; nothing works below {least}"
            )
        return 0

    def settle(self, worker: MapWorker, batches_left: int | None) -> None:
        """Take in what a worker takes after a batch; decide again how many workers there are to be."""
        worker.idle = self._held(worker.pid)
        worker.base = worker.base or worker.idle
        if worker.idle - worker.base > worker.room // 2:  # it keeps more and more
            self.drop(worker)
        memory, most = self.usable - self._held(os.getpid()), self.most
        if batches_left is not None:
            most = max(1, min(most, batches_left + len(self.busy())))
        fits = fitting(memory, worker.idle, self.sizer.need, most)
        # One more is not worth its start where it would soon be one too many.
        self.target = max(min(self.target, fits), fitting(memory, worker.idle, self.sizer.need * 1.5, most))
