"""Which epoch a loader begins next: the one that was asked for, otherwise the one after the last."""

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wdsflow.training.stalls.loss_tally import LossTally, say
from wdsflow.training.workers.chunk_engines import ChunkEngine
from wdsflow.training.workers.sample_work import MadeSample, SampleWork

from ..sample_tasks import Chunk, LaneTask
from .batch_planner import Planner
from .lanes import LanePosition

_MOST_LOOKS = 2  # iterations in a row that ended after one batch
_COUNTS = 2  # batches of an iteration that is more than a look


class EpochCounter:
    """Counts the epochs of one loader. Without ``advances``, as for evaluation, the epoch changes only if asked for.

    An iteration counts as an epoch when it gives its second batch, or the last one. Before that it is a look, as by
    ``next(iter(loader))``, and the next iteration begins the same epoch: some ranks may look, and others not.
    """

    def __init__(self, epoch: int, *, advances: bool) -> None:
        self.next = epoch
        self.asked = False  # since an iteration began
        self._advances = advances
        self._epoch = epoch  # of the present iteration
        self._given = 0  # its batches
        self._counted = False  # as an epoch
        self._read: set[int] = set()
        self._looks = 0

    def ask(self, epoch: int) -> None:
        """Let the next iteration begin this epoch."""
        self.next, self.asked = epoch, True

    def resume(self, epoch: int, *, done: bool) -> None:
        """Continue in an epoch of another process, or after it."""
        self.next, self.asked, self._looks = epoch + done, False, 0
        self._read = {epoch} if done else set()

    def begin(self) -> int:
        """Return the epoch of an iteration that begins. Warns if the caller repeats what was read before."""
        asked, self.asked = self.asked, False
        self._looks = 0 if self._counted or asked else self._looks + bool(self._given)
        self._epoch, self._given, self._counted = self.next, 0, False
        if self._advances and asked and self._epoch in self._read:
            say(
                logging.WARNING,
                f"epoch {self._epoch} begins again, with the same batches: set_epoch({self._epoch}) was called after "
                "this epoch had been read. Without set_epoch, each iteration begins the next epoch",
            )
        elif self._advances and self._looks == _MOST_LOOKS:
            say(
                logging.WARNING,
                f"the last {_MOST_LOOKS} iterations ended after one batch; this one begins epoch {self._epoch} again, "
                "with the same batch. Iterate over the loader once per epoch, or call set_epoch before each iteration",
            )
        return self._epoch

    def give(self, *, last: bool) -> bool:
        """Note that a batch is given; return whether the iteration counts as an epoch from this batch on."""
        self._given += 1
        if self._counted or not (last or self._given == _COUNTS):
            return False
        self._counted = True
        self._read.add(self._epoch)
        if self._advances and not self.asked:
            self.next = self._epoch + 1
        return True


_LOOK = 0.5  # seconds between two looks at the other ranks
_AT_EXIT = 3.0  # seconds that a thread has to end when Python does


class Ready(NamedTuple):
    """A batch, and where the feed stands after it."""

    batch: Any
    number: int
    samples: int
    positions: list[LanePosition]


class _Stopped(Exception):
    """Nobody wants more batches."""


_living: "weakref.WeakSet[EpochRun]" = weakref.WeakSet()


class _End(NamedTuple):
    error: BaseException | None


class EpochRun:
    """Makes the batches of one epoch in a thread of its own; one that is complete waits at most."""

    def __init__(
        self,
        engine: ChunkEngine,
        work: SampleWork,
        tally: LossTally,
        assemble: Callable[[list[MadeSample], list[LaneTask]], Any],
        plan: Callable[[Callable[[], None]], Planner],
    ) -> None:
        self.engine = engine
        self._work, self._tally, self._assemble, self._plan = work, tally, assemble, plan
        # Whoever abandons an iterator closes it while garbage is collected, maybe in the midst of these very calls: no
        # lock may be held then that closing takes. queue.Queue and threading.Event have one, SimpleQueue has none.
        self._ready: queue.SimpleQueue[Ready | _End] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # one item for each batch that may still be put there
        self._room.put(None)
        self._stop = False
        self.planner: Planner | None = None
        # Processes are forked here, in the thread that asks for an epoch, as a DataLoader forks its own.
        self._results = engine.map(work, self._chunks())
        self._thread = threading.Thread(target=self._drive, name="wdsflow-feed", daemon=True)
        self._thread.start()
        self.owner = os.getpid()
        _living.add(self)

    def next(self, look: Callable[[float], None]) -> Ready | None:
        """Return the next batch, None after the last; calls ``look`` with the seconds waited, again and again.

        Raises what the work or ``look`` raises, and RuntimeError once this pass has been closed.
        """
        started = time.monotonic()
        while True:
            if self._stop:
                raise RuntimeError(
                    "this pass over the loader was ended: another one has begun, or the loader was closed"
                )
            try:
                item = self._ready.get(timeout=_LOOK)
            except queue.Empty:
                look(time.monotonic() - started)
                continue
            if isinstance(item, Ready):
                self._room.put(None)
                return item
            self._ready.put(item)  # whoever asks again gets the same
            if item.error is not None:
                raise item.error
            return None

    def close(self, wait: float = 5.0) -> None:
        """Stop; wait a while for what is being done."""
        if self._stop:  # by an earlier call
            return
        self._stop = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._ready.get_nowait()
        self._room.put(None)  # whoever waits there sees that nothing is wanted any more
        if threading.current_thread() is not self._thread:
            self._thread.join(wait)
            if self._thread.is_alive():  # it gives something to a process that hangs
                self.engine.kill()
                self._thread.join(1.0)

    def _drive(self) -> None:
        error: BaseException | None = None
        try:
            self._make_all()
        except _Stopped:
            return
        except BaseException as caught:  # noqa: BLE001 - it is raised where training waits
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
                while (cut := planner.cut()) is not None:
                    count = len(cut.samples)
                    batch = self._assemble(cut.samples, cut.tasks)
                    cut.samples.clear()  # places in shared memory are free again
                    self._put(Ready(batch, cut.number, count, cut.positions))
                if found is None and not planner.finished:
                    raise RuntimeError("the feed came to its end before the epoch did")

    def _chunks(self) -> Iterator[Chunk]:
        assert self.planner is not None
        yield from self.planner.chunks()

    def _look(self) -> None:
        if self._stop:
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
    """End what is left when Python ends: a loop that an error broke off has closed nothing."""
    for run in list(_living):
        if run.owner == os.getpid():
            run.close(wait=_AT_EXIT)
