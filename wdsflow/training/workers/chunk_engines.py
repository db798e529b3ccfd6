"""Workers process chunks; results keep the order of the chunks."""

import atexit
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from traceback import walk_stack
from typing import NamedTuple

import psutil

from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.field_fixes import BusyWith
from wdsflow.training.stalls.loss_tally import FeedLoss

from .decoder_deaths import others_frames
from .sample_work import MadeSample, MixedWork

Results = list[MadeSample | FeedLoss]
Result = tuple[Sequence[Task], Results]
_PATIENCE = 2.0  # seconds that threads have to end when Python does
_LOOK = 0.2  # seconds without an answer, after which an empty result is yielded
_NOTHING: Result = ((), [])


class Pending(NamedTuple):
    """A chunk that was given to a worker, and its future results."""

    chunk: Sequence[Task]
    results: Future[Results]


def in_order(
    chunks: Iterator[Sequence[Task]],
    pending: deque[Pending],
    ahead: int,
    send: Callable[[Sequence[Task]], Pending],
    hear: Callable[[float], bool],
) -> Iterator[Result]:
    """Yield results in the order of their chunks, and periodically an empty one while none is ready.

    An empty chunk means that no work is needed now. At most ``ahead`` chunks are ``pending``. ``hear`` waits at most
    so many seconds for an answer, and returns whether there was one.
    """
    for chunk in chunks:
        if chunk:
            pending.append(send(chunk))
        elif not pending:
            yield _NOTHING
        while pending and (len(pending) >= ahead or not chunk) and not pending[0].results.done():
            if not hear(_LOOK):
                yield _NOTHING
        if pending:
            hear(0)
        while pending and pending[0].results.done():  # the next chunk may take long
            yield _popped(pending)
    while pending:
        while not pending[0].results.done():
            if not hear(_LOOK):
                yield _NOTHING
        yield _popped(pending)


def _popped(pending: deque[Pending]) -> Result:
    first = pending.popleft()
    return first.chunk, first.results.result()


class Threads:
    """``count`` threads of this process, with at most ``ahead`` pending chunks."""

    def __init__(self, count: int, ahead: int) -> None:
        self._ahead = max(ahead, 2 * count)
        self._jobs: queue.SimpleQueue[tuple[Pending, MixedWork] | None] = queue.SimpleQueue()
        self._at: dict[int, _At] = {}  # by thread
        # Not an executor: Python waits for its threads at exit, forever if one of them hangs.
        self._threads = [
            threading.Thread(target=self._serve, args=(number,), name=f"wdsflow-decode-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._end)

    def map(self, work: MixedWork, chunks: Iterator[Sequence[Task]]) -> Iterator[Result]:
        """Yield each chunk with its results, and empty results; raises an error of the work at the chunk's turn."""
        pending: deque[Pending] = deque()

        def send(chunk: Sequence[Task]) -> Pending:
            sent = Pending(chunk, Future())
            self._jobs.put((sent, work))
            return sent

        def hear(seconds: float) -> bool:
            return bool(wait([pending[0].results], seconds).done)

        try:
            yield from in_order(chunks, pending, self._ahead, send, hear)
        finally:
            for each in pending:
                each.results.cancel()

    def busy(self, seconds: float) -> list[BusyWith]:
        """Return the threads that have been at one sample for ``seconds``. Thread-safe."""
        now, found, stacks = time.monotonic(), [], sys._current_frames()  # noqa: SLF001 - documented
        for thread, at in list(self._at.items()):
            if now - at.since >= seconds:
                stack = walk_stack(stacks[thread]) if thread in stacks else ()
                inside = others_frames((each.f_code.co_name, each.f_code.co_filename, line) for each, line in stack)
                tokens = at.task == len(at.tasks)
                tasks = at.tasks if tokens else at.tasks[at.task : at.task + 1]
                found.append(BusyWith(f"decoding thread {at.number}", tasks, now - at.since, inside, tokens=tokens))
        return found

    def cpu(self) -> float:
        """Return the seconds of processor time of the threads."""
        own = {thread.native_id for thread in self._threads}
        return sum(each.user_time + each.system_time for each in psutil.Process().threads() if each.id in own)

    def kill(self) -> None:
        """Do nothing: threads cannot be killed."""

    def close(self) -> None:
        """End the threads after their current work, for which Python still waits when it ends."""
        for _ in self._threads:
            self._jobs.put(None)

    def _end(self) -> None:
        """Wait at exit until the threads have ended, unless one hangs."""
        self.close()
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _serve(self, number: int) -> None:
        me = threading.get_ident()
        while (job := self._jobs.get()) is not None:
            (chunk, results), work = job
            if not results.set_running_or_notify_cancel():
                continue

            def note(task: int, tasks: Sequence[Task] = chunk) -> None:
                self._at[me] = _At(number, tasks, task, time.monotonic())

            try:
                results.set_result(work(chunk, note))
            except BaseException as error:  # noqa: BLE001 - raised where results are taken
                results.set_exception(error)
            finally:
                self._at.pop(me, None)
            del job, chunk, results, work, note  # an idle thread must not hold images


class _At(NamedTuple):
    number: int
    tasks: Sequence[Task]
    task: int
    since: float
