"""One worker process, from the side of the process that asks, and the watch over what all of them take together."""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from wdsflow.engines.peer import Peer, ending, likely_memory
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import descendants, held, resident

from .map_worker import Done, Failed, MapOrder, MapSetup, RowBatch

# Memory that is given back counts as free: large blocks go back to the system at once, small ones when they can.
_GIVE_BACK = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}


class MapWorker:
    """A fresh Python that maps batches. It is no fork: the caller's threads, models and locks stay where they are."""

    def __init__(self, setup: MapSetup) -> None:
        # Modules of the working directory are not for the worker by default.
        start = "sys.path[:] = filter(None, sys.path); from wdsflow.mapping.map_worker import serve; serve()"
        self._peer = Peer(start, environment=_GIVE_BACK)
        self.line = self._peer.line
        self.pid = self._peer.pid
        self.batch: RowBatch | None = None
        self.room = 0  # bytes by which it may grow
        self.idle = 0  # bytes that it takes between two batches; 0 until it has begun
        self.base = 0  # resident bytes after its first batch; 0 until then
        self.killed = ""  # why it was killed
        self.gone = self._peer.gone
        with contextlib.suppress(OSError):  # it died already; its answer will say so
            self._peer.send(setup)

    def ask(self, batch: RowBatch, path: Path, room: int) -> None:
        """Hand over a batch."""
        self.batch, self.room = batch, room
        with contextlib.suppress(OSError):
            self._peer.send(MapOrder(batch, str(path), room))

    def answer(self) -> Done | Failed | int:
        """Receive an answer: the resident bytes when it has begun, or the result of a batch."""
        try:
            answer: Done | Failed | int = self._peer.receive()
        except EOFError:
            return self.death()
        return answer

    def death(self) -> Failed:
        """Wait for its end and that of all it started, and return why it ended."""
        status = self._peer.wait()
        by_itself = ending(status, "ended by itself (exit status") + ")" * (status >= 0)
        how = f"its process {by_itself}{likely_memory(status, 'a process')}"
        return Failed("memory" if self.killed else "died", self.killed or how)

    def takes(self) -> int:
        """Return the bytes that it and those it started take now."""
        return held(self.pid) + sum(map(held, descendants(self.pid)))

    def kill(self, why: str) -> None:
        """Kill it, and what it started, unless it has ended."""
        if not self.gone():
            self.killed = self.killed or why
            self._peer.end()

    def close(self) -> None:
        """Kill it, and wait for its end."""
        self._peer.close()


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
            max(busy, key=takes.__getitem__).kill(f"it took more memory than is left of {format_size(self.memory)}")
