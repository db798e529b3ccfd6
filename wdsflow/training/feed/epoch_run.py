"""One epoch: a thread that keeps decoders busy and assembles batches. Imports torch."""

import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.sample_tasks import Task
from wdsflow.training.workers.chunk_engines import Threads
from wdsflow.training.workers.decoders import Decoders
from wdsflow.training.workers.sample_work import MadeSample, MixedWork

from .assembler import Batch
from .planner import Planner

_LOOK = 0.5  # seconds between two checks of the other ranks
_AT_EXIT = 3.0  # seconds that a thread has to end when Python does


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
    """Makes the batches of one epoch in its own thread; at most one complete batch waits."""

    def __init__(
        self,
        engine: Threads | Decoders,
        work: MixedWork,
        assemble: Callable[[list[MadeSample], list[Task]], Batch],
        plan: Callable[[Callable[[], None]], Planner],
    ) -> None:
        self.engine = engine
        self._work, self._assemble, self._plan = work, assemble, plan
        # An abandoned iterator is closed during garbage collection, maybe inside these calls: closing must not take a
        # lock that they hold. queue.Queue and threading.Event have one, SimpleQueue does not.
        self._ready: queue.SimpleQueue[Ready | _End] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # one item for each free place
        self._room.put(None)
        self.stopped = False  # it has been told to stop; its thread may still be at work
        self._closed = False  # its thread has ended, too
        self.planner: Planner | None = None
        for run in list(_living):  # a process that is forked while the thread of a dropped feed holds a lock would hang
            if run.stopped:
                run.close(_AT_EXIT)
        # Processes are forked here, in the thread that asks for an epoch, as a DataLoader forks its own.
        self._results = engine.map(work, self._chunks())  # lazily: the planner is made later
        self._thread = threading.Thread(target=self._drive, name="wdsflow-feed", daemon=True)
        self._thread.start()
        self.owner = os.getpid()
        _living.add(self)

    def next(self, look: Callable[[float], None]) -> Ready | None:
        """Return the next batch, None after the last; while waiting, call ``look`` with the seconds waited.

        Raises errors of the work or of ``look``, and RuntimeError once this pass has been closed.
        """
        if self.owner != os.getpid():
            raise RuntimeError(f"process {self.owner} began this pass over the loader: call iter() in this one")
        started = time.monotonic()
        while True:
            if self.stopped:
                raise RuntimeError("this pass over the loader was ended: by another pass, a loaded state or close()")
            try:
                item = self._ready.get(timeout=_LOOK)
            except queue.Empty:
                look(time.monotonic() - started)
                continue
            if isinstance(item, Ready):
                self._room.put(None)
                return item
            self._ready.put(item)  # for the next call
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
            if self._thread.is_alive():  # it is sending to a process that hangs
                self.engine.kill()
                self._thread.join(1.0)
            self._closed = not self._thread.is_alive()

    def abandon(self) -> None:
        """Stop soon. Takes no lock: garbage collection may call it anywhere."""
        self.stopped = True
        self._room.put(None)  # wakes the thread

    def _drive(self) -> None:
        error: BaseException | None = None
        try:
            self._make_all()
        except _Stopped:
            return
        except BaseException as caught:  # noqa: BLE001 - raised where training waits
            error = caught
        finally:
            self._work.files.close()
        with contextlib.suppress(_Stopped):
            self._put(_End(error))

    def _make_all(self) -> None:
        with contextlib.ExitStack() as stack:
            results = stack.enter_context(contextlib.closing(self._results))  # type: ignore[type-var]
            planner = self.planner = stack.enter_context(contextlib.closing(self._plan(self._look)))
            while not planner.finished:
                self._look()
                found = next(results, None)
                if found is not None:
                    planner.take(*found)
                while (planned := planner.next_batch()) is not None:
                    count = len(planned.samples)
                    batch = self._assemble(planned.samples, planned.tasks)
                    planned.samples.clear()  # frees their shared memory
                    self._put(Ready(batch, planned.number, count, planned.after))
                if found is None and not planner.finished:
                    raise RuntimeError("the feed came to its end before the epoch did")

    def _chunks(self) -> Iterator[Sequence[Task]]:
        assert self.planner is not None
        yield from self.planner.chunks()

    def _look(self) -> None:
        if self.stopped:
            raise _Stopped

    def _put(self, item: Ready | _End) -> None:
        while True:
            self._look()
            with contextlib.suppress(queue.Empty):
                self._room.get(timeout=_LOOK)
                self._look()
                self._ready.put(item)
                return


@atexit.register
def _close_all() -> None:
    """Close the runs that were left open when an error ended their loop."""
    for run in list(_living):
        run.close(wait=_AT_EXIT)
