"""One epoch: a thread that keeps decoders busy and assembles batches. Imports torch."""

import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.sample_tasks import Chunk, Task
from wdsflow.training.workers.decoders import Decoders

from .assembler import Batch
from .planner import Planner

# Seconds between two checks of the other ranks.
_POLL = 0.5
# Seconds without an answer of a decoder, after which it is
# checked whether the run has been stopped.
_ANSWER = 0.2
# Seconds that a thread has to end when Python does.
_AT_EXIT = 3.0


class Ready(NamedTuple):
    """A batch, and the position of the feed after it."""

    batch: Batch
    number: int
    samples: int
    after: EpochPosition


class _End(NamedTuple):
    error: BaseException | None


class _Stopped(Exception):
    """The run was closed."""


_living: "weakref.WeakSet[EpochRun]" = weakref.WeakSet()


class EpochRun:
    """Makes the batches of one epoch in its own thread; at most one complete batch waits.

    Args:
        begin_decoding: starts the decoders.
        plan: makes the planner. Its argument is what the planner calls periodically.
        assemble: joins the samples of a batch.
        all_drawn: called by the thread once its decoders have all samples of the epoch, or are
            about to get them: what comes next may be read.
    """

    def __init__(
        self,
        begin_decoding: Callable[[], Decoders],
        plan: Callable[[Callable[[], None]], Planner],
        assemble: Callable[[Sequence[Task]], Batch],
        all_drawn: Callable[[], None],
    ) -> None:
        self._plan, self._assemble, self._all_drawn = plan, assemble, all_drawn
        # An abandoned iterator is closed during garbage collection, maybe inside these calls:
        # closing must not take a lock that they hold. queue.Queue and threading.Event have one,
        # SimpleQueue does not.
        self._ready: queue.SimpleQueue[Ready | _End] = queue.SimpleQueue()
        # One item for each batch that may be put there.
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._room.put(None)
        # It has been told to stop; its thread may still be at work.
        self.stopped = False
        # Its thread has ended, too.
        self._closed = False
        self.planner: Planner | None = None
        # A process that is forked while the thread of a dropped feed holds a lock would hang.
        for run in list(_living):
            if run.stopped:
                run.close(_AT_EXIT)
        # Processes are forked here, in the thread that asks
        # for an epoch, as a DataLoader forks its own.
        self.decoders = begin_decoding()
        self._thread = threading.Thread(target=self._run, name="wdsflow-feed", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            # The system has no more threads.
            self.decoders.close()
            raise
        self.owner = os.getpid()
        _living.add(self)

    def next(self, while_waiting: Callable[[float], None]) -> Ready | None:
        """Return the next batch; None after the last.

        While it waits, it calls ``while_waiting`` with the seconds waited.

        Raises errors of the work or of ``while_waiting``, and RuntimeError if this pass was closed.
        """
        if self.owner != os.getpid():
            raise RuntimeError(
                f"process {self.owner} began this pass over the loader: call iter() in this one"
            )
        started = time.monotonic()
        while True:
            if self.stopped:
                raise RuntimeError(
                    "this pass over the loader was ended: by another pass, a loaded state or close()"
                )
            try:
                item = self._ready.get(timeout=_POLL)
            except queue.Empty:
                while_waiting(time.monotonic() - started)
                continue
            if isinstance(item, Ready):
                self._room.put(None)
                return item
            # For the next call.
            self._ready.put(item)
            if item.error is not None:
                raise item.error
            return None

    def close(self, wait: float = 5.0) -> None:
        """Stop; wait up to ``wait`` seconds for the current work. May be called again."""
        # An iterator that lives as long as Python is closed again when this module is gone already.
        if self._closed or self.owner != os.getpid():
            return
        self.abandon()
        with contextlib.suppress(queue.Empty):
            while True:
                self._ready.get_nowait()
        if threading.current_thread() is not self._thread:
            self._thread.join(wait)
            # It is sending to a process that hangs.
            if self._thread.is_alive():
                self.decoders.kill()
                self._thread.join(1.0)
            self._closed = not self._thread.is_alive()

    def abandon(self) -> None:
        """Stop soon. Takes no lock: garbage collection may call it anywhere."""
        self.stopped = True
        # Wakes the thread.
        self._room.put(None)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._make_all()
        except _Stopped:
            return
        except BaseException as caught:  # noqa: BLE001 - raised where training waits
            error = caught
        with contextlib.suppress(_Stopped):
            self._put(_End(error))

    def _make_all(self) -> None:
        with (
            contextlib.closing(self.decoders),
            contextlib.closing(self._plan(self._check_stopped)) as planner,
        ):
            self.planner = planner
            # Results are taken in the order of their chunks:
            # batches do not depend on who is done first.
            pending: deque[Chunk] = deque()
            is_next_told = False
            while not planner.is_finished:
                self._check_stopped()
                sent = self._send_next(planner, pending)
                if planner.all_drawn and not is_next_told:
                    is_next_told = True
                    self._all_drawn()
                if pending and not pending[0].done:
                    # After a chunk was sent there may be work
                    # for others: drawing it goes before waiting.
                    self.decoders.wait(0 if sent else _ANSWER)
                # Also without results: lost samples may need others, which are drawn next.
                given = self._give_ready(planner)
                if not (pending or given or planner.is_finished):
                    raise RuntimeError(
                        "the order of this epoch names no next sample, and the epoch has not ended"
                    )
                while pending and pending[0].done and not planner.is_finished:
                    planner.take_results(pending.popleft().results())
                    self._give_ready(planner)
            # In a short epoch all may be made before the loop comes round again.
            if not is_next_told:
                self._all_drawn()

    def _send_next(self, planner: Planner, pending: deque[Chunk]) -> bool:
        """Send the next chunk to a decoder, and return whether a chunk was sent.

        None is sent if enough are in progress.
        """
        if len(pending) >= self.decoders.most_chunks:
            return False
        tasks = planner.draw()
        if not tasks:
            return False
        chunk = Chunk(tasks)
        self.decoders.send(chunk)
        pending.append(chunk)
        return True

    def _give_ready(self, planner: Planner) -> int:
        """Assemble the batches that are complete, and deliver them; return how many there were."""
        given = 0
        while (planned := planner.next_batch()) is not None:
            samples = len(planned.samples)
            batch = self._assemble(planned.samples)
            # Frees their shared memory.
            planned.samples.clear()
            self._put(Ready(batch, planned.number, samples, planned.after))
            given += 1
        return given

    def _check_stopped(self) -> None:
        if self.stopped:
            raise _Stopped

    def _put(self, item: Ready | _End) -> None:
        while True:
            self._check_stopped()
            with contextlib.suppress(queue.Empty):
                self._room.get(timeout=_POLL)
                self._check_stopped()
                self._ready.put(item)
                return


@atexit.register
def _close_all() -> None:
    """Close the runs that were left open when an error ended their loop."""
    for run in list(_living):
        run.close(wait=_AT_EXIT)
