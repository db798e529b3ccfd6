"""One epoch: a thread that keeps decoders busy and assembles batches. Imports numpy and torch."""

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from wdsflow.training.columns import TEXT, Columns
from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, as_tensor
from wdsflow.training.sample_tasks import Chunk, LaneTask
from wdsflow.training.stalls.field_fixes import at
from wdsflow.training.stalls.loss_tally import say
from wdsflow.training.workers.chunk_engines import Threads
from wdsflow.training.workers.decoders import Decoders
from wdsflow.training.workers.sample_work import MadeSample, MixedWork

from .balanced_planner import BalancedPlanner
from .batch_planner import EpochPosition, Planner

Batch: TypeAlias = object  # a list of columns, a dict of them by name, or what the user's map makes, joined
_MOST_LOOKS = 2  # iterations in a row that ended after one batch
_COUNTS = 2  # batches from which on an iteration is not a look
_LOOK = 0.5  # seconds between two checks of the other ranks
_AT_EXIT = 3.0  # seconds that a thread has to end when Python does


class EpochCounter:
    """Counts the epochs of one loader. Without ``advances``, as for evaluation, the epoch changes only on request.

    An iteration counts as an epoch once it yields its second or last batch. Before that it is a look, as by
    ``next(iter(loader))``, and the next iteration begins the same epoch: not all ranks may have looked.
    """

    def __init__(self, epoch: int, *, advances: bool) -> None:
        self.next = epoch
        self.asked = False  # since an iteration began
        self._advances = advances
        self._epoch = epoch  # of the current iteration
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
        """Begin an iteration and return its epoch. Warns if the caller reads the same data again."""
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
        """Count a batch; return whether this batch makes the iteration count as an epoch."""
        self._given += 1
        if self._counted or not (last or self._given == _COUNTS):
            return False
        self._counted = True
        self._read.add(self._epoch)
        if self._advances and not self.asked:
            self.next = self._epoch + 1
        return True


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
        assemble: Callable[[list[MadeSample], list[LaneTask]], Batch],
        plan: Callable[[Callable[[], None]], Planner | BalancedPlanner],
    ) -> None:
        self.engine = engine
        self._work, self._assemble, self._plan = work, assemble, plan
        # An abandoned iterator is closed during garbage collection, maybe inside these calls: closing must not take a
        # lock that they hold. queue.Queue and threading.Event have one, SimpleQueue does not.
        self._ready: queue.SimpleQueue[Ready | _End] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # one item for each free place
        self._room.put(None)
        self.stopped = False  # it has been told to stop; its thread may still be at work
        self.planner: Planner | BalancedPlanner | None = None
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
        if self.owner != os.getpid():
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
                while (cut := planner.cut()) is not None:
                    count = len(cut.samples)
                    batch = self._assemble(cut.samples, cut.tasks)
                    cut.samples.clear()  # frees their shared memory
                    self._put(Ready(batch, cut.number, count, cut.after))
                if found is None and not planner.finished:
                    raise RuntimeError("the feed came to its end before the epoch did")

    def _chunks(self) -> Iterator[Chunk]:
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


class BatchPool:
    """Lends float32 memory for batches: new pages for each batch would cost as much as resizing the images.

    Memory is reused once no tensor or view shares it, so a batch that the user keeps does not change. For a process that
    uses CUDA, it is pinned: copies to the GPU then take a sixth of the time. PyTorch lends that, because it knows which
    copies are still in flight.
    """

    def __init__(self, spare: int = 3) -> None:
        # Without a lock: garbage collection may return memory inside take().
        self._free: deque[NDArray[np.float32]] = deque(maxlen=spare)
        self.made = 0

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return an uninitialised tensor of that shape."""
        if uses_cuda():
            with contextlib.suppress(RuntimeError):  # the system pins no more
                return torch.empty(shape, pin_memory=True)
        count = int(np.prod(shape))
        memory = None
        with contextlib.suppress(IndexError):
            while memory is None or memory.size < count:
                memory = self._free.popleft()
        if memory is None or memory.size < count:
            memory = np.empty(count, np.float32)
            self.made += 1
        lent = memory[:count].reshape(shape)
        # torch keeps this view as long as any tensor shares its memory.
        weakref.finalize(lent, self._free.append, memory).atexit = False
        return torch.from_numpy(lent)


def uses_cuda() -> bool:
    """Return whether this process uses CUDA already."""
    cuda: Any = torch.cuda  # in part without types
    return bool(cuda.is_available() and cuda.is_initialized())


class Assembler:
    """Joins samples into a batch: a list of columns, or a dict of them. ``images``: how those of each source are joined."""

    def __init__(self, images: Sequence[ImageWork | None], columns: Columns) -> None:
        self._images, self._columns, self._pool = images, columns, BatchPool()

    def __call__(self, samples: Sequence[MadeSample], tasks: Sequence[LaneTask]) -> Batch:
        """Return a batch of the samples. Raises SampleError if their images differ in shape."""
        if self._columns.map is not None:
            try:
                return joined([made.more[0] for made in samples])
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise SampleError(f"map returned samples that make no batch: {error!r}, among {at(tasks)}") from error
        made = [self._column(number, samples, tasks) for number in self._columns.order]
        return made if self._columns.names is None else dict(zip(self._columns.names, made, strict=True))

    def _column(self, number: int, samples: Sequence[MadeSample], tasks: Sequence[LaneTask]) -> object:
        if number >= 0:
            return stack([made.more[number] for made in samples])
        return stack([made.text for made in samples]) if number == TEXT else self._pictures(samples, tasks)

    def _pictures(self, samples: Sequence[MadeSample], tasks: Sequence[LaneTask]) -> object:
        shapes = [getattr(made.image, "shape", None) for made in samples]
        other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is not None:
            described = [f"{list(shapes[number] or ())} for {at([tasks[number]])}" for number in (0, other)]
            raise SampleError(
                f"the image transform returned shapes that make no batch: {', and '.join(described)}\n"
                "Let it return tensors of one shape, for instance by a crop at its end."
            )
        first, work = samples[0].image, self._images[tasks[0].source]
        assert work is not None
        shape: tuple[int, ...] | None = work.shape
        if shape is None and isinstance(first, torch.Tensor) and first.dtype == torch.float32:
            shape = first.shape
        room = None if shape is None else self._pool.take((len(samples), *shape))
        parts, inside = [], True
        for source, group in groupby(range(len(samples)), lambda number: tasks[number].source):
            run, work = list(group), self._images[source]
            assert work is not None
            own = None if room is None else room if len(run) == len(samples) else room[run[0] : run[-1] + 1]
            parts.append(work.collate([samples[number].image for number in run], own))
            inside = inside and parts[-1] is own
        if len(parts) == 1:
            return parts[0]
        return room if inside and room is not None else stack([each for part in parts for each in part])


def joined(items: Sequence[Any]) -> Batch:
    """Join what a user's map returned for each sample: tuples, lists and dicts by column, anything else as one column."""
    first = items[0]
    if isinstance(first, Mapping):
        return {name: joined([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return [joined(list(column)) for column in zip(*items, strict=True)]
    return stack(items)


def stack(items: Sequence[object]) -> object:
    """Return tensors or arrays of one shape as one tensor, numbers as a tensor, anything else as a list."""
    first = items[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf":
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if len(arrays) == len(items) and {(item.shape, item.dtype) for item in arrays} == {(first.shape, first.dtype)}:
            return torch.from_numpy(np.stack(arrays))
    items = [as_tensor(item) for item in items]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    if len(tensors) == len(items) and {item.shape for item in tensors} == {tensors[0].shape}:
        return torch.stack(tensors)
    numbers = [item for item in items if isinstance(item, (int, float))]
    return torch.tensor(numbers) if len(numbers) == len(items) else list(items)
