"""Decoding in processes: two threads of Python cannot work at once, and a processor more would gain half of one.

Processes are started when an epoch begins, as those of a DataLoader are, and end with it.
"""

import logging
import selectors
import time
from collections import deque
from collections.abc import Iterator
from itertools import cycle

from wdsflow.engines.retries import DECODER_BEGINS
from wdsflow.training.sample_tasks import Chunk
from wdsflow.training.stalls.loss_tally import say
from wdsflow.training.stalls.work_in_progress import BusyWith

from .chunk_engines import ChunkEngine, Result, in_order
from .decoder import DecodeOrder, Seat
from .decoder_deaths import ProcessDied, Whereabouts
from .decoder_process import DecoderProcess, Sent
from .sample_work import SampleWork
from .slots import Slots

_PATIENCE = 2.0  # seconds that processes have to end


class Decoders(ChunkEngine):
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

    def map(self, work: SampleWork, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results, among them empty ones; an error of the work is raised where its chunk would have come.

        Raises SampleError if the transform cannot be sent to a process that is not forked, ProcessNotStarted if the
        system starts no more processes.
        """
        if self._slots is None:
            self._slots = Slots(self._room, self._size)
        self._team = _Team(self._count, work, self._slots, self._method, known=self._known)
        return _Results(self._team, chunks, self._ahead)

    def busy(self, seconds: float) -> list[BusyWith]:
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
        self._team, self._waiting = team, deque["Sent"]()
        self._results = in_order(chunks, self._waiting, ahead, team.send, team.hear)

    def __next__(self) -> Result:
        return next(self._results)

    def close(self) -> None:
        self._team.close()
        while self._waiting:
            self._waiting.popleft().forget()


class _Team:
    """Processes that share out chunks."""

    def __init__(self, count: int, work: SampleWork, slots: Slots, method: str, *, known: bool) -> None:
        self._slots, self._known, self._work, self._method, self._count = slots, known, work, method, count
        self._team: list[DecoderProcess] = []
        self._again: set[int] = set()  # numbers of those that have been started again
        self._ends = selectors.DefaultSelector()
        try:
            for number in range(count):
                self._team.append(self._started(number))
        except BaseException:
            self.close()
            raise
        for each in self._team:
            self._ends.register(each.answers, selectors.EVENT_READ, each)
        self._turns = cycle(range(count))

    def _started(self, number: int) -> DecoderProcess:
        others = [end for each in self._team for end in (each.orders, each.answers)]
        forks = self._method == "fork"
        seat = Seat(number, self._count, self._slots if forks else None, Whereabouts() if forks else None)
        return DecoderProcess(seat, self._method, self._work, others)

    def send(self, chunk: Chunk) -> Sent:
        """Give a chunk to whoever has least to do, or whose turn it is."""
        sent = Sent(chunk, DecodeOrder(chunk.tasks, self._slots.take(len(chunk.tasks))), self._slots)
        (min(self._team, key=lambda each: len(each.sent)) if self._known else self._team[next(self._turns)]).send(sent)
        return sent

    def hear(self, seconds: float) -> bool:
        """Take what answers there are, after waiting for the first. Raises ProcessDied if a process has ended."""
        found = self._ends.select(seconds)
        for key, _ in found:
            try:
                key.data.hear()
            except EOFError:
                raise self._died(key.data) from None
        if seconds and not found:
            self._look_round()
        return bool(found)

    def _look_round(self) -> None:
        """See to processes that will never answer. Raises ProcessDied."""
        for number, each in enumerate(self._team):
            if not each.alive:  # its pipe is kept open by a process that was forked by somebody else
                raise self._died(each)
            if number not in self._again and each.does_not_begin(DECODER_BEGINS):
                self._start_again(number)

    def _start_again(self, number: int) -> None:
        """Put another process in the place of one that has begun nothing, and give it the same work."""
        gone, self._again = self._team[number], self._again | {number}
        say(logging.WARNING, f"feed: {gone.name} did not begin its work for {DECODER_BEGINS:g} s: it is started again")
        gone.kill()
        gone.process.join()  # it can write into no slot any more
        new = self._started(number)
        self._ends.unregister(gone.answers)
        self._ends.register(new.answers, selectors.EVENT_READ, new)
        for sent in gone.sent:
            new.send(sent)
        self._team[number] = new
        gone.end(0.0)

    def _died(self, process: DecoderProcess) -> ProcessDied:
        return ProcessDied(process.death(len(self._team), known=self._known))

    def busy(self, seconds: float) -> list[BusyWith]:
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
