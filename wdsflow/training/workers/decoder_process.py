"""A decoding process as its parent sees it: what it was sent, what it is at, how it ended."""

import atexit
import contextlib
import gc
import multiprocessing
import os
import pickle
import time
import weakref
from collections import deque
from collections.abc import Sequence
from math import inf
from multiprocessing.connection import Connection

import psutil

from wdsflow.training.feed_options import SampleError
from wdsflow.training.sample_tasks import Chunk, LaneTask
from wdsflow.training.stalls.work_in_progress import BusyWith

from .chunk_engines import Result, Results
from .decoder import END, Answer, DecodeOrder, Seat, forget, opened, serve
from .decoder_deaths import AtTask, Death, ProcessNotStarted
from .sample_work import SampleWork
from .slots import Slots

_PATIENCE = 2.0  # seconds until a process that has closed its pipe has ended
_PIPE = 1 << 20  # bytes of answers that wait while nobody listens

_living: "weakref.WeakSet[DecoderProcess]" = weakref.WeakSet()


class Sent:
    """A chunk on its way."""

    def __init__(self, chunk: Chunk, order: DecodeOrder, slots: Slots) -> None:
        self.chunk, self.order, self._slots = chunk, order, slots
        self._answer: Answer | None = None

    @property
    def answered(self) -> bool:
        """Whether the process has answered."""
        return self._answer is not None

    def answer(self, data: bytes) -> None:
        """Take what the process sent."""
        self._answer = pickle.loads(data)  # noqa: S301 - by a child of ours

    def result(self) -> Result:
        """Return the chunk and what became of it. Raises the error of the work."""
        assert self._answer is not None
        results: Results = opened(self._answer, self.order, self._slots)
        return self.chunk, results

    def forget(self) -> None:
        """Free its slots. Nobody may write into them any more."""
        forget(self.order, self._slots)


class DecoderProcess:
    """One process, and what it has been sent.

    Raises SampleError if the transform cannot be sent to it, ProcessNotStarted if the system starts no more processes.
    """

    def __init__(self, seat: Seat, method: str, work: SampleWork, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context(method)
        try:
            theirs, self.orders = context.Pipe(duplex=False)
            self.answers, answering = context.Pipe(duplex=False)
        except OSError as error:
            raise ProcessNotStarted(seat.number, error) from error
        _widen(answering)
        ours = (*others, self.orders, self.answers) if method == "fork" else ()
        self.process = context.Process(  # type: ignore[attr-defined]  # of all contexts
            target=serve,
            args=(theirs, answering, ours, work, seat),
            name=f"wdsflow-decoder-{seat.number}",
            daemon=True,
        )
        self._where, self._owner, self._heard = seat.where, os.getpid(), 0
        self.sent: deque[Sent] = deque()
        self._first_sent = self._cpu_since = inf  # times
        self._cpu = -1.0  # seconds
        collects = gc.isenabled()
        gc.disable()  # in the child, too: a finalizer would wait there for a lock that a thread of the parent holds
        try:
            self.process.start()
        except OSError as error:
            raise ProcessNotStarted(seat.number, error) from error
        except Exception as error:
            raise SampleError(
                f"the image transform or the tokenizer cannot be sent to another process: {error}\n"
                "Define it at the top level of a module, not inside of a function."
            ) from error
        finally:
            if collects:
                gc.enable()
            theirs.close()
            answering.close()
        self._pid: int = self.process.pid
        self.name = f"decoder {seat.number} (process {self._pid})"
        _living.add(self)

    def send(self, sent: Sent) -> None:
        """Give it a chunk to do."""
        self.sent.append(sent)
        self._first_sent = min(self._first_sent, time.monotonic())
        with contextlib.suppress(OSError):  # whoever waits for its answers sees that it is gone
            self.orders.send_bytes(pickle.dumps(sent.order, pickle.HIGHEST_PROTOCOL))

    def hear(self) -> None:
        """Take an answer. Raises EOFError if the process has ended."""
        try:
            data = self.answers.recv_bytes()
        except (EOFError, OSError):
            raise EOFError from None
        self._heard += 1
        self.sent.popleft().answer(data)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return bool(self.process.is_alive())

    def does_not_begin(self, seconds: float) -> bool:
        """Return whether it has had work for so long, begun none of it, and used no processor for a while.

        A forked process hangs so where it needs a lock that another thread of its parent held when it was forked. Call
        it again and again: what it has used is compared with the last call.
        """
        if self._where is None or time.monotonic() < self._first_sent + seconds or self._where.read().order:
            return False
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self._pid)
            idle = used.status() == psutil.STATUS_SLEEPING  # neither stopped nor at a disk
            cpu = sum(used.cpu_times()[:2]) if idle else -1.0
            if not idle or cpu != self._cpu:
                self._cpu, self._cpu_since = cpu, time.monotonic()
            return idle and time.monotonic() >= self._cpu_since + seconds / 10
        return False

    def death(self, count: int, *, known: bool) -> Death:
        """Return how it ended."""
        self.process.join(_PATIENCE)
        _, tasks, tokens = self._began()
        return Death(self.name, self.process.exitcode, tasks, tokens, count, known)

    def busy(self, seconds: float) -> BusyWith | None:
        """Return what it has been at for so long; None if it has nothing to do, or if that is not known.

        It is at no task if it has not begun what it was sent, as where its start hangs.
        """
        with contextlib.suppress(psutil.Error, OSError, ValueError):  # it has ended meanwhile
            where, tasks, tokens = self._began()
            if where is None or not self.sent or (waited := time.monotonic() - where.since) < seconds:
                return None
            stopped = psutil.Process(self._pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
            stack = self._where.stack(self._pid) if self._where is not None and not stopped else ()
            return BusyWith(self.name, tasks, waited, stack, stopped=stopped, tokens=tokens)
        return None

    def ask_to_end(self) -> None:
        """Let it end after what it is doing."""
        with contextlib.suppress(OSError):
            os.set_blocking(self.orders.fileno(), False)  # one that is stopped takes nothing from a full pipe
            self.orders.send_bytes(END)

    def end(self, until: float) -> None:
        """Wait until then for its end, by ``time.monotonic``, then kill it; give its files back."""
        self.process.join(max(0.0, until - time.monotonic()))
        self.kill()
        self.process.join()
        self.process.close()
        self.sent.clear()
        self.orders.close()
        self.answers.close()
        if self._where is not None:
            self._where.close()
        _living.discard(self)

    def kill(self) -> None:
        """Kill it, if this process has started it."""
        with contextlib.suppress(ValueError):  # it is closed
            if self._owner == os.getpid():
                self.process.kill()

    def _began(self) -> tuple[AtTask | None, Sequence[LaneTask], bool]:
        """Return how far it has come, if that is known, the tasks that it may be at, and whether in the tokenizer."""
        sent = self.sent.copy()
        if self._where is None:
            return None, sent[0].order.tasks if sent else (), False
        where = self._where.read()
        unheard = where.order - self._heard - 1  # answers that are in the pipe
        tasks = sent[unheard].order.tasks if 0 <= unheard < len(sent) else ()
        tokens = bool(tasks) and where.task == len(tasks)
        return where, tasks if tokens else tasks[where.task : where.task + 1], tokens


@atexit.register
def kill_decoders() -> None:
    """Kill the processes that are left: multiprocessing would ask them to end and wait, forever if one is stopped."""
    for each in list(_living):
        each.kill()


def _widen(end: Connection) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):  # on Linux only, up to a limit
        import fcntl

        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
