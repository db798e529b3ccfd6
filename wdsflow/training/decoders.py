"""Decoding in processes: two threads of Python cannot work at once, and a processor more would gain half of one.

Processes are started when an epoch begins, as those of a DataLoader are, and end with it.
"""

import atexit
import contextlib
import multiprocessing
import os
import pickle
import selectors
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from multiprocessing.connection import Connection

import psutil

from .busy import Busy
from .deaths import Death, ProcessDied
from .decoder import END, Answer, Order, Seat, forget, opened, serve
from .engines import Engine, Result, Results
from .errors import SampleError
from .lanes import Task
from .planner import Chunk
from .slots import Slots
from .whereabouts import Where, Whereabouts
from .work import Work

_PATIENCE = 2.0  # seconds that processes have to end
_LOOK = 0.2  # seconds without an answer, after which whoever waits may look round
_PIPE = 1 << 20  # bytes of answers that wait while nobody listens
_NOTHING: Result = (Chunk(-1, ()), [])

_living: "weakref.WeakSet[_Process]" = weakref.WeakSet()


class Decoders(Engine):
    """``count`` processes, with ``ahead`` chunks on their way.

    ``method``: how they are started. Forked ones have shared memory for ``room`` images of at most ``size`` bytes; other
    images, and those of other processes, come through pipes. ``known``: they run a transform of OpenCLIP's. Of any
    other nothing is known, it may keep state: chunks go to the processes in turn then, as a DataLoader's do.
    """

    def __init__(self, count: int, ahead: int, *, room: int, size: int, method: str, known: bool) -> None:
        self._count, self._ahead, self._method, self._known = count, max(ahead, 2 * count), method, known
        self._room, self._size = (room, size) if method == "fork" else (0, 0)
        self._slots: Slots | None = None
        self._team: _Team | None = None

    def map(self, work: Work, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results, among them empty ones; an error of the work is raised where its chunk would have come.

        Raises SampleError where the transform cannot be sent to a process that is not forked.
        """
        if self._slots is None:
            self._slots = Slots(self._room, self._size)
        self._team = _Team(self._count, work, self._slots, self._method, known=self._known)
        return _Results(self._team, chunks, self._ahead)

    def busy(self, seconds: float) -> list[Busy]:
        """Return the processes that have been at the same for so long."""
        return [] if self._team is None else self._team.busy(seconds)

    def kill(self) -> None:
        """Kill the processes."""
        if self._team is not None:
            self._team.kill()

    def close(self) -> None:
        """Let go of the memory; what is still looked at stays."""
        self._slots = None


class _Results(Iterator[Result]):
    """Gives orders and takes answers; ends the processes when it is closed, even before the first result."""

    def __init__(self, team: "_Team", chunks: Iterator[Chunk], ahead: int) -> None:
        self._team, self._results = team, self._run(chunks, ahead)
        self._waiting: deque[_Sent] = deque()

    def __next__(self) -> Result:
        return next(self._results)

    def close(self) -> None:
        self._team.close()
        while self._waiting:
            self._waiting.popleft().forget()

    def _run(self, chunks: Iterator[Chunk], ahead: int) -> Iterator[Result]:
        team, waiting = self._team, self._waiting
        for chunk in chunks:
            if chunk.tasks:
                waiting.append(team.send(chunk))
            elif not waiting:
                yield _NOTHING
            while waiting and (len(waiting) >= ahead or not chunk.tasks) and not waiting[0].answered:
                if not team.hear(_LOOK):
                    yield _NOTHING
            team.hear(0)
            while waiting and waiting[0].answered:  # the next chunk may take long to come
                yield waiting.popleft().result()
        while waiting:
            while not waiting[0].answered:
                if not team.hear(_LOOK):
                    yield _NOTHING
            yield waiting.popleft().result()


class _Sent:
    """A chunk on its way."""

    def __init__(self, chunk: Chunk, order: Order, slots: Slots) -> None:
        self.chunk, self.order, self._slots = chunk, order, slots
        self._answer: Answer | None = None

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def answer(self, data: bytes) -> None:
        self._answer = pickle.loads(data)  # noqa: S301 - by a child of ours

    def result(self) -> Result:
        assert self._answer is not None
        results: Results = opened(self._answer, self.order, self._slots)
        return self.chunk, results

    def forget(self) -> None:
        """Free its slots. Nobody may write into them any more."""
        forget(self.order, self._slots)


class _Process:
    """One process, and what it has been sent."""

    def __init__(self, seat: Seat, method: str, work: Work, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context(method)
        theirs, self.orders = context.Pipe(duplex=False)
        self.answers, answering = context.Pipe(duplex=False)
        _widen(answering)
        ours = (*others, self.orders, self.answers) if method == "fork" else ()
        self.process = context.Process(  # type: ignore[attr-defined]  # of all contexts
            target=serve,
            args=(theirs, answering, ours, work, seat),
            name=f"wdsflow-decoder-{seat.number}",
            daemon=True,
        )
        self._where, self._owner, self._heard = seat.where, os.getpid(), 0
        self.sent: deque[_Sent] = deque()
        try:
            self.process.start()
        except Exception as error:
            raise SampleError(
                f"the image transform or the tokenizer cannot be sent to another process: {error}\n"
                "Define it at the top level of a module, not inside of a function."
            ) from error
        finally:
            theirs.close()
            answering.close()
        self._pid: int = self.process.pid
        self.name = f"decoder {seat.number} (process {self._pid})"
        _living.add(self)

    def send(self, sent: _Sent) -> None:
        self.sent.append(sent)
        with contextlib.suppress(OSError):  # whoever waits for its answers sees that it is gone
            self.orders.send_bytes(pickle.dumps(sent.order, pickle.HIGHEST_PROTOCOL))

    def hear(self) -> None:
        """Take an answer. Raises EOFError where the process has ended."""
        try:
            data = self.answers.recv_bytes()
        except (EOFError, OSError):
            raise EOFError from None
        self._heard += 1
        self.sent.popleft().answer(data)

    def death(self, count: int, *, known: bool) -> Death:
        """Return how it ended."""
        self.process.join(_PATIENCE)
        _, tasks, tokens = self._began()
        return Death(self.name, self.process.exitcode, tasks, tokens, count, known)

    def busy(self, seconds: float) -> Busy | None:
        """Return what it has been at for so long; None if it has not, or if that is not known."""
        with contextlib.suppress(psutil.Error, OSError, ValueError):  # it has ended meanwhile
            where, tasks, tokens = self._began()
            if where is None or not self.sent or (waited := time.monotonic() - where.since) < seconds:
                return None
            stopped = psutil.Process(self._pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
            stack = self._where.stack(self._pid) if self._where is not None and tasks and not stopped else ()
            if tasks or stopped:
                return Busy(self.name, tasks, waited, stack, stopped=stopped, tokens=tokens)
        return None

    def ask_to_end(self) -> None:
        with contextlib.suppress(OSError):
            os.set_blocking(self.orders.fileno(), False)  # one that is stopped takes nothing from a full pipe
            self.orders.send_bytes(END)

    def end(self, until: float) -> None:
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

    def _began(self) -> tuple[Where | None, Sequence[Task], bool]:
        """Return how far it has come, if that is known, the tasks that it may be at, and whether in the tokenizer."""
        sent = self.sent.copy()
        if self._where is None:
            return None, sent[0].order.tasks if sent else (), False
        where = self._where.read()
        unheard = where.order - self._heard - 1  # answers that are in the pipe
        tasks = sent[unheard].order.tasks if 0 <= unheard < len(sent) else ()
        tokens = bool(tasks) and where.task == len(tasks)
        return where, tasks if tokens else tasks[where.task : where.task + 1], tokens


class _Team:
    """Processes that share out chunks."""

    def __init__(self, count: int, work: Work, slots: Slots, method: str, *, known: bool) -> None:
        self._slots, self._known = slots, known
        self._team: list[_Process] = []
        self._ends = selectors.DefaultSelector()
        forks = method == "fork"
        try:
            for number in range(count):
                others = [end for each in self._team for end in (each.orders, each.answers)]
                seat = Seat(number, count, slots if forks else None, Whereabouts() if forks else None)
                self._team.append(_Process(seat, method, work, others))
        except BaseException:
            self.close()
            raise
        for each in self._team:
            self._ends.register(each.answers, selectors.EVENT_READ, each)
        self._turns = cycle(self._team)

    def send(self, chunk: Chunk) -> _Sent:
        """Give a chunk to whoever has least to do, or whose turn it is."""
        sent = _Sent(chunk, Order(chunk.tasks, self._slots.take(len(chunk.tasks))), self._slots)
        (min(self._team, key=lambda each: len(each.sent)) if self._known else next(self._turns)).send(sent)
        return sent

    def hear(self, seconds: float) -> bool:
        """Take what answers there are, after waiting for the first. Raises ProcessDied where a process has ended."""
        found = self._ends.select(seconds)
        for key, _ in found:
            try:
                key.data.hear()
            except EOFError:
                raise ProcessDied(key.data.death(len(self._team), known=self._known)) from None
        return bool(found)

    def busy(self, seconds: float) -> list[Busy]:
        """Return who has been at the same for so long."""
        return [busy for each in list(self._team) if (busy := each.busy(seconds)) is not None]

    def kill(self) -> None:
        """Kill all processes; whoever waits for them goes on."""
        for each in list(self._team):
            each.kill()

    def close(self) -> None:
        """End all processes."""
        self._ends.close()
        team, self._team = self._team, []
        for each in team:
            each.ask_to_end()
        until = time.monotonic() + _PATIENCE
        for each in team:
            each.end(until)


@atexit.register
def kill_decoders() -> None:
    """Kill the processes that are left: multiprocessing would ask them to end and wait, for ever if one is stopped."""
    for each in list(_living):
        each.kill()


def _widen(end: Connection) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):  # on Linux only, up to a limit
        import fcntl

        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
