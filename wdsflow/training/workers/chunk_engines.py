"""Doing work on chunks. Results come in the order of chunks."""

import atexit
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from traceback import walk_stack
from typing import NamedTuple, Protocol, TypeVar

from wdsflow.training.sample_tasks import Chunk, LaneTask
from wdsflow.training.stalls.loss_tally import FeedLoss
from wdsflow.training.stalls.work_in_progress import BusyWith

from .decoder_deaths import others_frames
from .sample_work import MadeSample, SampleWork

Results = list[MadeSample | FeedLoss]
Result = tuple[Chunk, Results]
_PATIENCE = 2.0  # seconds that threads have to end when Python does
_LOOK = 0.2  # seconds without an answer, after which whoever waits may look round
_NOTHING: Result = (Chunk(-1, ()), [])


class ChunkEngine(ABC):
    """Maps work over chunks that are made while it goes on: an empty chunk means that none is needed at the moment."""

    @abstractmethod
    def map(self, work: SampleWork, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield each chunk with its results. Whoever stops before the end closes the iterator."""

    @abstractmethod
    def busy(self, seconds: float) -> list[BusyWith]:
        """Return which decoders have been at the same for so many seconds. May be called by any thread."""

    @abstractmethod
    def kill(self) -> None:
        """End what can be ended by force, where closing waits for something that hangs. May be called by any thread."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


class PendingChunk(Protocol):
    """A chunk on its way."""

    @property
    def answered(self) -> bool:
        """Whether ``result`` returns at once."""

    def result(self) -> Result:
        """Return the chunk and what became of it. Raises the error of the work."""


P = TypeVar("P", bound=PendingChunk)


def in_order(
    chunks: Iterator[Chunk],
    waiting: deque[P],
    ahead: int,
    send: Callable[[Chunk], P],
    hear: Callable[[float], bool],
) -> Iterator[Result]:
    """Yield results in the order of their chunks, empty ones now and then where nothing comes.

    ``waiting`` holds what is on its way, at most ``ahead`` chunks. ``hear`` waits for so many seconds until something
    is answered, and returns whether anything was.
    """
    for chunk in chunks:
        if chunk.tasks:
            waiting.append(send(chunk))
        elif not waiting:
            yield _NOTHING
        while waiting and (len(waiting) >= ahead or not chunk.tasks) and not waiting[0].answered:
            if not hear(_LOOK):
                yield _NOTHING
        if waiting:
            hear(0)
        while waiting and waiting[0].answered:  # the next chunk may take long to come
            yield waiting.popleft().result()
    while waiting:
        while not waiting[0].answered:
            if not hear(_LOOK):
                yield _NOTHING
        yield waiting.popleft().result()


class Threads(ChunkEngine):
    """``count`` threads of this process, with ``ahead`` chunks on their way."""

    def __init__(self, count: int, ahead: int) -> None:
        self._ahead = max(ahead, 2 * count)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._at: dict[int, _At] = {}  # by thread
        # Not an executor's: Python waits at its end for those, forever where one of them hangs.
        self._threads = [
            threading.Thread(target=self._serve, args=(number,), name=f"wdsflow-decode-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._end)

    def map(self, work: SampleWork, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results, among them empty ones; an error of the work is raised where its chunk would have come."""
        waiting: deque[_Job] = deque()

        def send(chunk: Chunk) -> _Job:
            job = _Job(chunk, work)
            self._jobs.put(job)
            return job

        def hear(seconds: float) -> bool:
            return bool(wait([waiting[0].future], seconds).done)

        try:
            yield from in_order(chunks, waiting, self._ahead, send, hear)
        finally:
            for job in waiting:
                job.future.cancel()

    def busy(self, seconds: float) -> list[BusyWith]:
        """Return the threads that have been at the same for so long."""
        now, found, stacks = time.monotonic(), [], sys._current_frames()  # noqa: SLF001 - documented
        for thread, at in list(self._at.items()):
            if now - at.since >= seconds:
                stack = walk_stack(stacks[thread]) if thread in stacks else ()
                inside = others_frames((each.f_code.co_name, each.f_code.co_filename, line) for each, line in stack)
                tokens = at.task == len(at.tasks)
                tasks = at.tasks if tokens else at.tasks[at.task : at.task + 1]
                found.append(BusyWith(f"decoding thread {at.number}", tasks, now - at.since, inside, tokens=tokens))
        return found

    def kill(self) -> None:
        """Do nothing: threads cannot be killed."""

    def close(self) -> None:
        """End the threads as soon as they have done what they are at."""
        atexit.unregister(self._end)
        for _ in self._threads:
            self._jobs.put(None)

    def _end(self) -> None:
        """Let threads end before Python does, unless one hangs."""
        self.close()
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _serve(self, number: int) -> None:
        me = threading.get_ident()
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            tasks = job.chunk.tasks

            def note(task: int, tasks: Sequence[LaneTask] = tasks) -> None:
                self._at[me] = _At(number, tasks, task, time.monotonic())

            try:
                job.future.set_result(job.work(tasks, note))
            except BaseException as error:  # noqa: BLE001 - it is raised where results are taken
                job.future.set_exception(error)
            finally:
                self._at.pop(me, None)
            del job  # neither images nor the work are kept while nothing is to be done


class _Job:
    def __init__(self, chunk: Chunk, work: SampleWork) -> None:
        self.chunk, self.work, self.future = chunk, work, Future[Results]()

    @property
    def answered(self) -> bool:
        return self.future.done()

    def result(self) -> Result:
        return self.chunk, self.future.result()


class _At(NamedTuple):
    number: int
    tasks: Sequence[LaneTask]
    task: int
    since: float
