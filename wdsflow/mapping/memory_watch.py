"""Watches what all processes take together, mapped pages counted once, and ends the greediest."""

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from wdsflow.memory.usage import descendants, held, resident

from .map_process import MapWorker, overrun

_DONT_NEED = 4  # MADV_DONTNEED of Linux


def let_go(files: Collection[str]) -> None:
    """Let go of what this process has read of files that it has mapped for reading; it is read again when it is needed.

    Nothing happens where the system is no Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    wanted = {os.path.realpath(file) for file in files}
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            span, rights, *_, last = line.split(maxsplit=5)  # the last is the path, where there is one
            if rights.startswith("r-") and last in wanted:  # what cannot be written to is as it is in the file
                start, end = (int(word, 16) for word in span.split("-"))
                advise(start, end - start, _DONT_NEED)


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
