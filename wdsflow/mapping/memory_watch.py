"""Watches what all processes take together, and ends the greediest worker before it is too much."""

import os
import threading
from collections.abc import Callable, Sequence

from wdsflow.memory.usage import descendants, held, resident

from .map_process import MapWorker, overrun

_EVERY = 0.03  # seconds
_FAMILY = 8  # looks after which processes are searched for that workers started


class Watch:
    """A thread that looks at the memory of this process and its workers, until it is closed."""

    def __init__(self, memory: int, workers: Callable[[], Sequence[MapWorker]]) -> None:
        self.memory, self._workers = memory, workers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="wdsflow-memory")
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        looks, family = 0, dict[int, list[int]]()
        while not self._ended.wait(_EVERY):
            workers = list(self._workers())
            if looks % _FAMILY == 0:
                family = {worker.pid: descendants(worker.pid) for worker in workers}
            looks += 1
            pids = [pid for worker in workers for pid in (worker.pid, *family.get(worker.pid, ()))]
            # Resident bytes count shared pages more than once, but are quick to read.
            if sum(map(resident, (os.getpid(), *pids))) > self.memory:
                self._look_closely(workers)

    def _look_closely(self, workers: Sequence[MapWorker]) -> None:
        takes = {worker: worker.takes() for worker in workers}
        if held(os.getpid()) + sum(takes.values()) <= self.memory:
            return
        busy = [worker for worker in workers if worker.batch is not None and not worker.killed]
        if busy:
            max(busy, key=takes.__getitem__).kill(overrun(self.memory))
