"""Decoding in processes: two threads of Python cannot work at once, and a processor more would gain half of one.

Processes are forked when an epoch begins, as those of a DataLoader are, and end with it.
"""

import contextlib
import multiprocessing
import pickle
import selectors
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from .decoder import END, Answer, Order, opened, serve
from .engines import Engine, Result, Results
from .planner import Chunk
from .slots import Slots
from .work import Work

_PATIENCE = 2.0  # seconds that a process has to end
_LOOK = 0.2  # seconds without an answer, after which whoever waits may look round
_PIPE = 1 << 20  # bytes of answers that wait while nobody listens
_NOTHING: Result = (Chunk(-1, ()), [])


class DecoderError(RuntimeError):
    """A decoding process ended; names the samples that it was at."""


class Decoders(Engine):
    """``count`` processes, with ``ahead`` chunks on their way and memory for ``room`` pictures of a shape."""

    def __init__(self, count: int, ahead: int, room: int, shape: tuple[int, ...]) -> None:
        self._count, self._ahead = count, max(ahead, 2 * count)
        self._room, self._shape = room, shape
        self._slots: Slots | None = None

    def map(self, work: Work, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results, among them empty ones; an error of the work is raised where its chunk would have come."""
        if self._slots is None:
            self._slots = Slots(self._room, self._shape)
        return _Results(_Team(self._count, work, self._slots), chunks, self._ahead)

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
        for slot in self.order.slots:
            self._slots.give_back(slot)


class _Process:
    """One process, and what it has been sent."""

    def __init__(self, number: int, work: Work, slots: Slots, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        theirs, self.orders = context.Pipe(duplex=False)
        self.answers, answering = context.Pipe(duplex=False)
        _widen(answering)
        ours = (*others, self.orders, self.answers)
        self.process = context.Process(
            target=serve, args=(theirs, answering, ours, work, slots), name=f"wdsflow-decoder-{number}", daemon=True
        )
        self.process.start()
        theirs.close()
        answering.close()
        self.sent: deque[_Sent] = deque()

    def send(self, sent: _Sent) -> None:
        self.sent.append(sent)
        with contextlib.suppress(OSError):  # whoever waits for its answers sees that it is gone
            self.orders.send_bytes(pickle.dumps(sent.order, pickle.HIGHEST_PROTOCOL))

    def hear(self) -> None:
        try:
            data = self.answers.recv_bytes()
        except (EOFError, OSError):
            raise self._why_it_ended() from None
        self.sent.popleft().answer(data)

    def ask_to_end(self) -> None:
        with contextlib.suppress(OSError):
            self.orders.send_bytes(END)

    def end(self) -> None:
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
        self.orders.close()
        self.answers.close()

    def _why_it_ended(self) -> DecoderError:
        self.process.join(_PATIENCE)
        code = self.process.exitcode
        how = f"exit status {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += ", as the kernel does where memory runs out"
        text = f"a decoding process was ended by {how}"
        if self.sent:
            tasks = self.sent[0].order.tasks
            keys = ", ".join(repr(task.ref.key) for task in tasks)
            text += f"; it was at one of the samples {keys} of {tasks[0].ref.shard!r}"
        return DecoderError(text)


class _Team:
    """Processes that share out chunks."""

    def __init__(self, count: int, work: Work, slots: Slots) -> None:
        self._slots = slots
        self._team: list[_Process] = []
        self._ends = selectors.DefaultSelector()
        for number in range(count):
            others = [end for each in self._team for end in (each.orders, each.answers)]
            self._team.append(_Process(number, work, slots, others))
        for each in self._team:
            self._ends.register(each.answers, selectors.EVENT_READ, each)

    def send(self, chunk: Chunk) -> _Sent:
        """Give a chunk to whoever has least to do."""
        sent = _Sent(chunk, Order(chunk.tasks, self._slots.take(len(chunk.tasks))), self._slots)
        min(self._team, key=lambda each: len(each.sent)).send(sent)
        return sent

    def hear(self, seconds: float) -> bool:
        """Take what answers there are, after waiting for the first. Raises DecoderError where a process has ended."""
        found = self._ends.select(seconds)
        for key, _ in found:
            key.data.hear()
        return bool(found)

    def close(self) -> None:
        """End all processes."""
        self._ends.close()
        team, self._team = self._team, []
        for each in team:
            each.ask_to_end()
        for each in team:
            each.end()


def _widen(end: Connection) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):  # on Linux only, up to a limit
        import fcntl

        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
