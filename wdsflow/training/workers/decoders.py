"""Decoding in processes: Python threads share one interpreter lock, so a second processor would gain half of one.

Like a DataLoader's workers, the processes start with an epoch and end with it.
"""

import atexit
import contextlib
import gc
import logging
import multiprocessing
import os
import pickle
import selectors
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import cycle
from math import inf
from multiprocessing.connection import Connection

import psutil

from wdsflow.engines.retries import DECODER_BEGINS
from wdsflow.training.feed_options import DecoderError, FeedOptions, SampleError
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.field_fixes import BusyWith
from wdsflow.training.stalls.loss_tally import say

from .chunk_engines import Pending, Result, in_order
from .decoder import END, DecodeOrder, Seat, opened, serve
from .decoder_deaths import AtTask, Death, Whereabouts, death_message, not_started_message
from .sample_work import MixedWork
from .slots import Slots

_PATIENCE = 2.0  # seconds that processes have to end
_PIPE = 1 << 20  # bytes of answers that fit into a pipe

_living: "weakref.WeakSet[DecoderProcess]" = weakref.WeakSet()


class Decoders:
    """``count`` processes, with at most ``ahead`` pending chunks.

    Forked processes (``method``) share memory for ``room`` images of at most ``size`` bytes; larger images, and those
    of other processes, come through pipes. ``known``: the transform is one of OpenCLIP's; any other may keep state, so
    that its chunks go to the processes in turn, as a DataLoader's do. Messages repeat ``options``.
    """

    def __init__(
        self, count: int, ahead: int, *, room: int, size: int, method: str, known: bool, options: FeedOptions
    ) -> None:
        self.count, self.ahead, self.method = count, max(ahead, 2 * count), method
        self.known, self.options = known, options
        self._room, self._size = (room, size) if method == "fork" else (0, 0)
        self._slots: Slots | None = None
        self._team: _Team | None = None

    def map(self, work: MixedWork, chunks: Iterator[Sequence[Task]]) -> Iterator[Result]:
        """Yield each chunk with its results, and empty results; raises an error of the work at the chunk's turn.

        Raises SampleError if the transform cannot be sent to a process that is not forked, DecoderError if no more
        processes can be started, or if one ends.
        """
        if self._slots is None:
            self._slots = Slots(self._room, self._size)
        self._team = _Team(self, work, self._slots, chunks)
        return self._team

    def busy(self, seconds: float) -> list[BusyWith]:
        """Return the processes that have been at one sample for ``seconds``. Thread-safe."""
        return [] if self._team is None else self._team.busy(seconds)

    def cpu(self) -> float:
        """Return the seconds of processor time of the processes of this epoch."""
        return 0.0 if self._team is None else self._team.cpu()

    def kill(self) -> None:
        """Kill the processes. Thread-safe."""
        if self._team is not None:
            self._team.kill()

    def close(self) -> None:
        """Free the shared memory, except referenced parts."""
        self._slots = None


class _Team(Iterator[Result]):
    """The processes of one epoch, and their results. ``close`` ends them, even before the first result."""

    def __init__(self, plan: Decoders, work: MixedWork, slots: Slots, chunks: Iterator[Sequence[Task]]) -> None:
        self._plan, self._work, self._slots = plan, work, slots
        self._team: list[DecoderProcess] = []
        self._cpu_of_ended = 0.0  # seconds
        self._restarted: set[int] = set()  # numbers of processes
        self._ends = selectors.DefaultSelector()
        self._pending: deque[Pending] = deque()
        self._results = in_order(chunks, self._pending, plan.ahead, self._send, self._hear)
        try:
            for number in range(plan.count):
                self._team.append(self._started(number))
        except BaseException:
            self.close()
            raise
        for each in self._team:
            self._ends.register(each.answers, selectors.EVENT_READ, each)
        self._turns = cycle(range(plan.count))

    def __next__(self) -> Result:
        return next(self._results)

    def _started(self, number: int) -> "DecoderProcess":
        others = [end for each in self._team for end in (each.orders, each.answers)]
        forks = self._plan.method == "fork"
        seat = Seat(number, self._plan.count, self._slots if forks else None, Whereabouts() if forks else None)
        try:
            return DecoderProcess(seat, self._plan.method, self._work, others)
        except OSError as error:
            message = not_started_message(number, error, self._plan.options, known=self._plan.known)
            raise DecoderError(message) from error

    def _send(self, chunk: Sequence[Task]) -> Pending:
        """Give a chunk to the process with the shortest queue, or to the next in turn."""
        pending = Pending(chunk, Future())
        order = DecodeOrder(chunk, self._slots.take(len(chunk)))
        if self._plan.known:
            process = min(self._team, key=lambda each: len(each.sent))
        else:
            process = self._team[next(self._turns)]
        process.send(pending, order)
        return pending

    def _hear(self, seconds: float) -> bool:
        """Receive all answers, after waiting for the first. Raises DecoderError if a process has ended."""
        found = self._ends.select(seconds)
        for key, _ in found:
            try:
                data = key.data.answer()
            except EOFError:
                raise self._died(key.data) from None
            pending, order = key.data.sent.popleft()
            try:
                pending.results.set_result(opened(data, order, self._slots))
            except BaseException as error:  # noqa: BLE001 - raised where results are taken
                pending.results.set_exception(error)
        if seconds and not found:
            self._check()
        return bool(found)

    def _check(self) -> None:
        """Raise DecoderError for a process that has ended; restart one that does not start to work."""
        for number, each in enumerate(self._team):
            if not each.process.is_alive():  # another fork may keep its pipe open
                raise self._died(each)
            if number not in self._restarted and each.does_not_begin(DECODER_BEGINS):
                self._restart(number)

    def _restart(self, number: int) -> None:
        """Replace a process that has not started to work; the new one gets the same work."""
        old, self._restarted = self._team[number], self._restarted | {number}
        say(logging.WARNING, f"feed: {old.name} did not begin its work for {DECODER_BEGINS:g} s: it is started again")
        old.kill()
        old.process.join()  # it no longer writes into slots
        new = self._started(number)
        self._ends.unregister(old.answers)
        self._ends.register(new.answers, selectors.EVENT_READ, new)
        for pending, order in old.sent:
            new.send(pending, order)
        self._team[number] = new
        old.end(0.0)

    def _died(self, process: "DecoderProcess") -> DecoderError:
        death = process.death(len(self._team), known=self._plan.known)
        return DecoderError(death_message(death, self._plan.options))

    def busy(self, seconds: float) -> list[BusyWith]:
        return [busy for each in list(self._team) if (busy := each.busy(seconds)) is not None]

    def cpu(self) -> float:
        return self._cpu_of_ended + sum(each.cpu() for each in list(self._team))

    def kill(self) -> None:
        for each in list(self._team):
            each.kill()

    def close(self) -> None:
        self._ends.close()
        self._cpu_of_ended = self.cpu()
        team, self._team = self._team, []
        for each in team:
            each.ask_to_end()
        until = time.monotonic() + _PATIENCE
        for each in team:
            each.end(until)
            for _, order in each.sent:
                self._slots.give_back(*order.slots)
        self._pending.clear()


class DecoderProcess:
    """One process and its orders.

    Raises OSError if the system cannot start more processes, SampleError if the transform cannot be sent.
    """

    def __init__(self, seat: Seat, method: str, work: MixedWork, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context(method)
        theirs, self.orders = context.Pipe(duplex=False)
        self.answers, answering = context.Pipe(duplex=False)
        _widen(answering)
        ours = (*others, self.orders, self.answers) if method == "fork" else ()
        self.process = context.Process(  # type: ignore[attr-defined]  # of all contexts
            target=serve, args=(theirs, answering, ours, work, seat), name=f"wdsflow-decoder-{seat.number}", daemon=True
        )
        self._where, self._owner, self._heard = seat.where, os.getpid(), 0
        self.sent: deque[tuple[Pending, DecodeOrder]] = deque()
        self._first_sent = self._cpu_since = inf  # times
        self._cpu = -1.0  # seconds
        collects = gc.isenabled()
        gc.disable()  # in the child, too: a finalizer would wait there for a lock that a thread of the parent holds
        try:
            self.process.start()
        except OSError:
            raise
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

    def send(self, pending: Pending, order: DecodeOrder) -> None:
        """Send an order. A dead process is noticed when its answer is received."""
        self.sent.append((pending, order))
        self._first_sent = min(self._first_sent, time.monotonic())
        with contextlib.suppress(OSError):
            self.orders.send_bytes(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))

    def answer(self) -> bytes:
        """Receive the answer to the first order. Raises EOFError if the process has ended."""
        try:
            data = self.answers.recv_bytes()
        except OSError:
            raise EOFError from None
        self._heard += 1
        return data

    def does_not_begin(self, seconds: float) -> bool:
        """Return whether it has had work for ``seconds`` without starting any, and is not using the processor.

        A forked process hangs this way if it needs a lock that another thread of its parent held during the fork.
        Each call compares the processor time with that of the last call.
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
        """Return its current tasks if it has been at them for ``seconds``; None if it has no work, or if unknown.

        ``tasks`` is empty if it has not begun its first order, for example because its start hangs.
        """
        with contextlib.suppress(psutil.Error, OSError, ValueError):  # it has ended meanwhile
            where, tasks, tokens = self._began()
            if where is None or not self.sent or (waited := time.monotonic() - where.since) < seconds:
                return None
            stopped = psutil.Process(self._pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
            stack = self._where.stack(self._pid) if self._where is not None and not stopped else ()
            return BusyWith(self.name, tasks, waited, stack, stopped=stopped, tokens=tokens)
        return None

    def cpu(self) -> float:
        """Return its seconds of processor time; 0 once it has ended."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self._pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def ask_to_end(self) -> None:
        """Request its end after the current order."""
        with contextlib.suppress(OSError):
            os.set_blocking(self.orders.fileno(), False)  # a stopped process does not empty a full pipe
            self.orders.send_bytes(END)

    def end(self, until: float) -> None:
        """Wait for its end until a time of ``time.monotonic``, then kill it; close its files."""
        self.process.join(max(0.0, until - time.monotonic()))
        self.kill()
        self.process.join()
        self.process.close()
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

    def _began(self) -> tuple[AtTask | None, Sequence[Task], bool]:
        """Return its position, if known, the tasks that it may be at, and whether it is in the tokenizer."""
        orders = [order for _, order in self.sent.copy()]
        if self._where is None:
            return None, orders[0].tasks if orders else (), False
        where = self._where.read()
        unheard = where.order - self._heard - 1  # answers still in the pipe
        tasks = orders[unheard].tasks if 0 <= unheard < len(orders) else ()
        tokens = bool(tasks) and where.task == len(tasks)
        return where, tasks if tokens else tasks[where.task : where.task + 1], tokens


@atexit.register
def kill_decoders() -> None:
    """Kill all processes: multiprocessing would terminate them and wait, forever if one is stopped."""
    for each in list(_living):
        each.kill()


def _widen(end: Connection) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):  # on Linux only, up to a limit
        import fcntl

        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
