"""A limit on the memory of a run and all its workers: the largest one is killed above it."""

import os
import threading
from collections.abc import Callable, Sequence

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import descendants, pss_bytes, resident_bytes

from .map_worker import MapWorker

# Seconds between two checks.
_PAUSE = 0.03
# Checks between two searches for children of workers.
_CHECKS_PER_SEARCH = 8


class MemoryWatch:
    """A thread that watches the memory of this process and its workers until it is closed.

    Args:
        memory: bytes that all of them may take.
        workers: returns the workers at the moment.
    """

    def __init__(self, memory: int, workers: Callable[[], Sequence[MapWorker]]) -> None:
        self.memory = memory
        self._workers = workers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="wdsflow-memory")
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        checks = 0
        # By the process of the worker.
        children: dict[int, list[int]] = {}
        while not self._ended.wait(_PAUSE):
            workers = list(self._workers())
            if checks % _CHECKS_PER_SEARCH == 0:
                children = {worker.pid: descendants(worker.pid) for worker in workers}
            checks += 1
            processes = [os.getpid()]
            for worker in workers:
                processes += [worker.pid, *children.get(worker.pid, ())]
            # Resident bytes count shared pages more than once, but are quick to read.
            if sum(map(resident_bytes, processes)) > self.memory:
                self._kill_largest(workers)

    def _kill_largest(self, workers: Sequence[MapWorker]) -> None:
        """Kill the largest busy worker if memory is above the limit.

        Shared memory is counted once.
        """
        busy = [worker for worker in workers if worker.batch is not None and not worker.kill_reason]
        sizes = {worker: worker.memory_in_use() for worker in workers}
        if not busy or pss_bytes(os.getpid()) + sum(sizes.values()) <= self.memory:
            return
        largest = max(busy, key=sizes.__getitem__)
        largest.kill(f"it took more memory than is left of {format_size(self.memory)}")
