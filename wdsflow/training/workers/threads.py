"""Decoding in threads of this process."""

import queue
import sys
import threading
import time
from collections.abc import Sequence
from traceback import walk_stack
from typing import NamedTuple

import psutil

from wdsflow.training.sample_tasks import Chunk, Task
from wdsflow.training.stalls.hanging import BusyDecoder

from .decoder_position import frames_outside_wdsflow
from .decoders import Decoders
from .sample_work import ChunkWork

# Seconds that threads have to end.
_PATIENCE = 2.0


class DecodingThreads(Decoders):
    """``count`` threads, with at most ``most_chunks`` in progress."""

    def __init__(self, count: int, most_chunks: int, work: ChunkWork) -> None:
        self.most_chunks = max(most_chunks, 2 * count)
        self._work = work
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        # Set after each chunk that is done.
        self._progress = threading.Event()
        self._closed = False
        self._cpu_of_ended = 0.0
        # By the identifier of a thread.
        self._positions: dict[int, _Position] = {}
        # Not an executor: Python waits for its threads at exit, forever if one of them hangs.
        self._threads: list[threading.Thread] = []
        try:
            for number in range(count):
                name = f"wdsflow-decode-{number}"
                thread = threading.Thread(
                    target=self._serve, args=(number,), name=name, daemon=True
                )
                thread.start()
                self._threads.append(thread)
        except BaseException:
            # The others would wait for work without end.
            self.close()
            raise

    def send(self, chunk: Chunk) -> None:
        """Give a chunk to the thread that is free first."""
        self._chunks.put(chunk)

    def wait(self, seconds: float) -> None:
        """Wait until some chunk is done."""
        self._progress.wait(seconds)
        # A chunk may be done before this line, but never
        # without being seen: who waits looks at it afterwards.
        self._progress.clear()

    def busy(self, seconds: float) -> list[BusyDecoder]:
        """Return those that have been at one sample for ``seconds``."""
        now = time.monotonic()
        stacks = sys._current_frames()  # noqa: SLF001 - documented
        busy = []
        for thread, position in list(self._positions.items()):
            waited = now - position.since
            if waited < seconds:
                continue
            stack = walk_stack(stacks[thread]) if thread in stacks else ()
            inside = frames_outside_wdsflow(
                (frame.f_code.co_name, frame.f_code.co_filename, line) for frame, line in stack
            )
            tokens = position.task == len(position.tasks)
            tasks = position.tasks if tokens else position.tasks[position.task : position.task + 1]
            busy.append(
                BusyDecoder(
                    f"decoding thread {position.number}", tasks, waited, inside, in_tokenizer=tokens
                )
            )
        return busy

    def cpu_seconds(self) -> float:
        """Return their seconds of processor time."""
        numbers = {thread.native_id for thread in self._threads if thread.is_alive()}
        running = [thread for thread in psutil.Process().threads() if thread.id in numbers]
        return self._cpu_of_ended + sum(thread.user_time + thread.system_time for thread in running)

    def kill(self) -> None:
        """Do nothing: threads cannot be killed."""

    def close(self) -> None:
        """End the threads after their current chunks, and wait for them, unless one hangs."""
        self._closed = True
        cpu = self.cpu_seconds()
        for _ in self._threads:
            self._chunks.put(None)
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._cpu_of_ended, self._threads = cpu, []
        self._work.close()

    def _serve(self, number: int) -> None:
        thread = threading.get_ident()
        while (chunk := self._chunks.get()) is not None:
            if self._closed:
                continue

            def note(task: int, tasks: Sequence[Task] = chunk.tasks) -> None:
                self._positions[thread] = _Position(number, tasks, task, time.monotonic())

            try:
                self._work(chunk.tasks, note)
            except BaseException as error:  # noqa: BLE001 - raised where results are taken
                chunk.error = error
            self._positions.pop(thread, None)
            chunk.done = True
            self._progress.set()
            # An idle thread must not hold images.
            del chunk, note


class _Position(NamedTuple):
    number: int
    tasks: Sequence[Task]
    # The number of tasks while their captions are tokenized.
    task: int
    since: float
