"""A worker process, as the run that starts it sees it."""

import contextlib
from pathlib import Path

from wdsflow.engines.exit_status import describe_exit, sigkill_cause
from wdsflow.engines.peer import Peer
from wdsflow.memory.usage import descendants, pss_bytes

from .messages import Done, Failed, MapOrder, MapSetup, RowBatch

# Freed memory should return to the system: large blocks at once, small ones when possible.
_ALLOCATORS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}
# The worker does not import from the working directory until it has the caller's path.
_START = "sys.path[:] = filter(None, sys.path); from wdsflow.mapping.worker_process import serve; serve()"


class MapWorker(Peer):
    """A new Python process that maps batches.

    It is not a fork: the caller's threads, models and locks stay in the caller.
    """

    def __init__(self, setup: MapSetup) -> None:
        super().__init__(_START, environment=_ALLOCATORS)
        self.batch: RowBatch | None = None
        # Bytes by which it may grow.
        self.room = 0
        # Bytes that it takes between batches; 0 until it has begun.
        self.idle_memory = 0
        # Resident bytes after its first batch; 0 until then.
        self.first_idle_memory = 0
        # Why it was killed.
        self.kill_reason = ""
        # If it has died, answer() will return its end.
        with contextlib.suppress(OSError):
            self.send(setup)

    def send_batch(self, batch: RowBatch, path: Path, room: int) -> None:
        """Send a batch."""
        self.batch = batch
        self.room = room
        with contextlib.suppress(OSError):
            self.send(MapOrder(batch, str(path), room))

    def receive_answer(self) -> Done | Failed | int:
        """Receive an answer: its resident bytes at the beginning, later the result of a batch."""
        try:
            return self.receive()  # type: ignore[no-any-return]
        except EOFError:
            return self.wait_for_failure()

    def wait_for_failure(self) -> Failed:
        """Wait for its end and that of its children, and return why it ended."""
        status = self.wait()
        if self.kill_reason:
            return Failed("memory", self.kill_reason)
        reason = describe_exit(status, "ended by itself (exit status")
        if status >= 0:
            reason += ")"
        return Failed("died", f"its process {reason}{sigkill_cause(status, 'a process')}")

    def memory_in_use(self) -> int:
        """Return the bytes that it and its children take now."""
        return pss_bytes(self.pid) + sum(map(pss_bytes, descendants(self.pid)))

    def kill(self, reason: str) -> None:
        """Kill it and its children, unless it has ended."""
        if not self.has_ended():
            self.kill_reason = self.kill_reason or reason
            self.end()
