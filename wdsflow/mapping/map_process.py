"""The parent's handle of a worker process, and a thread that limits the memory of all workers."""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from wdsflow.engines.peer import Peer, ending, likely_memory
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import descendants, held, resident

from .map_worker import Done, Failed, MapOrder, MapSetup, RowBatch

# Freed memory should return to the system: large blocks at once, small ones when possible.
_GIVE_BACK = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}


class MapWorker(Peer):
    """A new Python process that maps batches. It is not a fork: the caller's threads, models and locks stay there."""

    def __init__(self, setup: MapSetup) -> None:
        # The worker does not import from the working directory until it has the caller's path.
        start = "sys.path[:] = filter(None, sys.path); from wdsflow.mapping.map_worker import serve; serve()"
        super().__init__(start, environment=_GIVE_BACK)
        self.batch: RowBatch | None = None
        self.room = 0  # bytes by which it may grow
        self.idle = 0  # bytes that it takes between batches; 0 until it has begun
        self.base = 0  # resident bytes after its first batch; 0 until then
        self.killed = ""  # why it was killed
        with contextlib.suppress(OSError):  # it has died: answer() will return its end
            self.send(setup)

    def give(self, batch: RowBatch, path: Path, room: int) -> None:
        """Send a batch."""
        self.batch, self.room = batch, room
        with contextlib.suppress(OSError):
            self.send(MapOrder(batch, str(path), room))

    def answer(self) -> Done | Failed | int:
        """Receive an answer: its resident bytes at the beginning, later the result of a batch."""
        try:
            return self.receive()  # type: ignore[no-any-return]
        except EOFError:
            return self.death()

    def death(self) -> Failed:
        """Wait for its end and that of its children, and return why it ended."""
        status = self.wait()
        by_itself = ending(status, "ended by itself (exit status") + ")" * (status >= 0)
        how = f"its process {by_itself}{likely_memory(status, 'a process')}"
        return Failed("memory" if self.killed else "died", self.killed or how)

    def takes(self) -> int:
        """Return the bytes that it and its children take now."""
        return held(self.pid) + sum(map(held, descendants(self.pid)))

    def kill(self, why: str) -> None:
        """Kill it and its children, unless it has ended."""
        if not self.gone():
            self.killed = self.killed or why
            self.end()


_EVERY = 0.03  # seconds
_FAMILY = 8  # checks between two searches for children of workers


class Watch:
    """A thread that watches the memory of this process and its workers until it is closed."""

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
            if sum(map(resident, (os.getpid(), *pids))) <= self.memory:
                continue
            takes = {worker: worker.takes() for worker in workers}
            busy = [worker for worker in workers if worker.batch is not None and not worker.killed]
            if busy and held(os.getpid()) + sum(takes.values()) > self.memory:
                max(busy, key=takes.__getitem__).kill(f"it took more memory than is left of {format_size(self.memory)}")
