"""Decoding in processes.

Python threads share one interpreter lock, so a second processor would gain half of one.
"""

import logging
import selectors
import time
from itertools import cycle
from multiprocessing.connection import Connection

from wdsflow.engines.retries import DECODER_BEGINS
from wdsflow.training.feed_options import DecoderError, FeedOptions
from wdsflow.training.sample_tasks import Chunk
from wdsflow.training.stalls.hanging import BusyDecoder
from wdsflow.training.stalls.loss_tally import log_or_print

from .decoder import DecoderSetup
from .decoder_deaths import death_message, not_started_message
from .decoder_position import SharedPosition
from .decoder_process import DecoderProcess
from .decoders import Decoders
from .sample_work import ChunkWork
from .slots import Slots

# Seconds that processes have to end.
_PATIENCE = 2.0


class DecodingProcesses(Decoders):
    """``count`` processes, with at most ``most_chunks`` in progress.

    Args:
        count: number of processes.
        most_chunks: that may be in progress.
        work: what they do.
        room: forked processes share memory for so many images; the others come through pipes.
        size: the most bytes of such an image.
        method: how processes are started.
        recognised: the transform is one of OpenCLIP's. Any other may keep state, so that its chunks
            go to the processes in turn, as those of a DataLoader do.
        options: are repeated in messages.

    Raises:
        SampleError: the transform cannot be sent to a process that is not forked.
        DecoderError: no more processes can be started.
    """

    def __init__(
        self,
        count: int,
        most_chunks: int,
        work: ChunkWork,
        *,
        room: int,
        size: int,
        method: str,
        recognised: bool,
        options: FeedOptions,
    ) -> None:
        self.most_chunks = max(most_chunks, 2 * count)
        self._count, self._work, self._method = count, work, method
        self._recognised, self._options = recognised, options
        forks = method == "fork"
        self._slots = Slots(room, size) if forks else Slots(0, 0)
        self._processes: list[DecoderProcess] = []
        self._cpu_of_ended = 0.0
        # Numbers of processes.
        self._restarted: set[int] = set()
        self._answers = selectors.DefaultSelector()
        try:
            for number in range(count):
                self._processes.append(self._started(number))
        except BaseException:
            self.close()
            raise
        for process in self._processes:
            self._answers.register(process.answers, selectors.EVENT_READ, process)
        self._round_robin = cycle(range(count))

    def send(self, chunk: Chunk) -> None:
        """Give a chunk to the process with the shortest queue, or to the next in turn."""
        slots = self._slots.take(len(chunk.tasks))
        for task, slot in zip(chunk.tasks, slots, strict=True):
            task.slot = slot
        if self._recognised:
            process = min(self._processes, key=lambda process: len(process.sent))
        else:
            process = self._processes[next(self._round_robin)]
        process.send(chunk)

    def wait(self, seconds: float) -> None:
        """Wait for answers, then look whether a process has ended."""
        ready = self._answers.select(seconds)
        for key, _ in ready:
            process: DecoderProcess = key.data
            try:
                process.take_answer(self._slots)
            except EOFError:
                raise self._died(process) from None
        if seconds and not ready:
            self._check()

    def busy(self, seconds: float) -> list[BusyDecoder]:
        """Return those that have been at one sample for ``seconds``."""
        busy = [process.busy_with(seconds) for process in list(self._processes)]
        return [one for one in busy if one is not None]

    def cpu_seconds(self) -> float:
        """Return their seconds of processor time."""
        return self._cpu_of_ended + sum(process.cpu_seconds() for process in list(self._processes))

    def kill(self) -> None:
        """Kill all processes."""
        for process in list(self._processes):
            process.kill()

    def close(self) -> None:
        """End the processes, after two seconds by killing them."""
        self._answers.close()
        self._cpu_of_ended = self.cpu_seconds()
        processes, self._processes = self._processes, []
        for process in processes:
            process.ask_to_end()
        until = time.monotonic() + _PATIENCE
        for process in processes:
            process.end(until)
        self._work.close()
        # At once: the run of an epoch lives until garbage is collected, and shared memory is large.
        del self._work, self._slots

    def _started(self, number: int) -> DecoderProcess:
        others: list[Connection] = []
        for process in self._processes:
            others += [process.chunks, process.answers]
        forks = self._method == "fork"
        try:
            position = SharedPosition() if forks else None
            setup = DecoderSetup(
                number, self._count, slots=self._slots if forks else None, position=position
            )
            return DecoderProcess(setup, self._method, self._work, others)
        except OSError as error:
            message = not_started_message(number, error, self._options, recognised=self._recognised)
            raise DecoderError(message) from error

    def _check(self) -> None:
        """Raise DecoderError for a process that has ended.

        Restarts a process that does not start to work.
        """
        for number, process in enumerate(self._processes):
            # Another fork may keep its pipe open.
            if not process.process.is_alive():
                raise self._died(process)
            if number not in self._restarted and process.does_not_begin(DECODER_BEGINS):
                self._restart(number)

    def _restart(self, number: int) -> None:
        """Replace a process that has not started to work; the new one gets the same work."""
        old = self._processes[number]
        self._restarted.add(number)
        log_or_print(
            logging.WARNING,
            f"feed: {old.name} did not begin its work for {DECODER_BEGINS:g} s: it is started again",
        )
        old.kill()
        # Then it no longer writes into slots.
        old.process.join()
        new = self._started(number)
        self._answers.unregister(old.answers)
        self._answers.register(new.answers, selectors.EVENT_READ, new)
        for chunk in old.sent:
            new.send(chunk)
        self._processes[number] = new
        old.end(0.0)

    def _died(self, process: DecoderProcess) -> DecoderError:
        death = process.wait_for_death(self._count, recognised=self._recognised)
        return DecoderError(death_message(death, self._options))
