"""One decoding process, as its parent sees it: its chunks, answers, position and end."""

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
from wdsflow.training.sample_tasks import Chunk, Task
from wdsflow.training.stalls.hanging import BusyDecoder

from .decoder import END, DecoderSetup, read_answer, serve
from .decoder_deaths import Death
from .decoder_position import Position
from .sample_work import ChunkWork
from .slots import Slots

# Seconds that a process has to end.
_PATIENCE = 2.0
# Bytes of answers that fit into a pipe.
_PIPE = 1 << 20

_living: "weakref.WeakSet[DecoderProcess]" = weakref.WeakSet()


class DecoderProcess:
    """One process and its chunks.

    Raises OSError if the system cannot start more processes, SampleError if the transform cannot be
    sent.
    """

    def __init__(
        self, setup: DecoderSetup, method: str, work: ChunkWork, others: Sequence[Connection]
    ) -> None:
        context = multiprocessing.get_context(method)
        theirs, self.chunks = context.Pipe(duplex=False)
        self.answers, answering = context.Pipe(duplex=False)
        _enlarge_pipe(answering)
        _enlarge_pipe(self.chunks)
        ours = (*others, self.chunks, self.answers) if method == "fork" else ()
        self.process = context.Process(  # type: ignore[attr-defined]  # of all contexts
            target=serve,
            args=(theirs, answering, ours, work, setup),
            name=f"wdsflow-decoder-{setup.number}",
            daemon=True,
        )
        self._position = setup.position
        self._owner = os.getpid()
        self._answered = 0
        self.sent: deque[Chunk] = deque()
        self._first_sent = inf
        # Processor time, and since when it has not changed.
        self._cpu, self._cpu_since = -1.0, inf
        collects = gc.isenabled()
        # In the child, too: a finalizer would wait there
        # for a lock that a thread of the parent holds.
        gc.disable()
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
        self.name = f"decoder {setup.number} (process {self._pid})"
        _living.add(self)

    def send(self, chunk: Chunk) -> None:
        """Send a chunk. A dead process is noticed when its answer is received."""
        self.sent.append(chunk)
        self._first_sent = min(self._first_sent, time.monotonic())
        with contextlib.suppress(OSError):
            self.chunks.send_bytes(pickle.dumps(chunk.tasks, pickle.HIGHEST_PROTOCOL))

    def take_answer(self, slots: Slots) -> None:
        """Receive the results of the first chunk. Raises EOFError if the process has ended."""
        try:
            data = self.answers.recv_bytes()
        except OSError:
            raise EOFError from None
        self._answered += 1
        chunk = self.sent.popleft()
        try:
            read_answer(data, chunk.tasks, slots)
        except BaseException as error:  # noqa: BLE001 - raised where results are taken
            chunk.error = error
        chunk.done = True

    def does_not_begin(self, seconds: float) -> bool:
        """Return whether it has had work for ``seconds`` without starting any.

        Returns True only if it is not using the processor either.

        A forked process hangs this way if it needs a lock that another thread of its parent held
        during the fork. Each call compares the processor time with that of the last call.
        """
        if (
            self._position is None
            or time.monotonic() < self._first_sent + seconds
            or self._position.read().chunk
        ):
            return False
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._pid)
            # Neither stopped nor at a disk.
            idle = process.status() == psutil.STATUS_SLEEPING
            cpu = sum(process.cpu_times()[:2]) if idle else -1.0
            if not idle or cpu != self._cpu:
                self._cpu, self._cpu_since = cpu, time.monotonic()
            return idle and time.monotonic() >= self._cpu_since + seconds / 10
        return False

    def wait_for_death(self, count: int, *, recognised: bool) -> Death:
        """Return how it ended."""
        self.process.join(_PATIENCE)
        _, tasks, tokens = self._current()
        return Death(self.name, self.process.exitcode, tasks, tokens, count, recognised)

    def busy_with(self, seconds: float) -> BusyDecoder | None:
        """Return its current tasks if it has worked on them for ``seconds``.

        None if it has no work, or if its work is unknown.

        ``tasks`` is empty if it has not begun its first chunk, for example because its start hangs.
        """
        # It may have ended meanwhile.
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            position, tasks, tokens = self._current()
            if position is None or not self.sent:
                return None
            waited = time.monotonic() - position.since
            if waited < seconds:
                return None
            stopped = psutil.Process(self._pid).status() in {
                psutil.STATUS_STOPPED,
                psutil.STATUS_TRACING_STOP,
            }
            stack = (
                self._position.stack(self._pid)
                if self._position is not None and not stopped
                else ()
            )
            return BusyDecoder(
                self.name, tasks, waited, stack, stopped=stopped, in_tokenizer=tokens
            )
        return None

    def cpu_seconds(self) -> float:
        """Return its seconds of processor time; 0 once it has ended."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self._pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def ask_to_end(self) -> None:
        """Request its end after the current chunk."""
        with contextlib.suppress(OSError):
            # A stopped process does not empty a full pipe.
            os.set_blocking(self.chunks.fileno(), False)
            self.chunks.send_bytes(END)

    def end(self, until: float) -> None:
        """Wait for its end until a time of ``time.monotonic``, then kill it; close its files."""
        self.process.join(max(0.0, until - time.monotonic()))
        self.kill()
        self.process.join()
        self.process.close()
        self.chunks.close()
        self.answers.close()
        if self._position is not None:
            self._position.close()
        _living.discard(self)

    def kill(self) -> None:
        """Kill it, if this process has started it."""
        # ValueError: it is closed.
        with contextlib.suppress(ValueError):
            if self._owner == os.getpid():
                self.process.kill()

    def _current(self) -> tuple[Position | None, Sequence[Task], bool]:
        """Return its position, its current tasks, and whether it is in the tokenizer.

        The position is None if unknown.
        """
        chunks = list(self.sent.copy())
        if self._position is None:
            return None, chunks[0].tasks if chunks else (), False
        position = self._position.read()
        # Of the chunks without an answer: others may still be in the pipe.
        latest = position.chunk - self._answered - 1
        tasks = chunks[latest].tasks if 0 <= latest < len(chunks) else ()
        tokens = bool(tasks) and position.task == len(tasks)
        return position, tasks if tokens else tasks[position.task : position.task + 1], tokens


@atexit.register
def kill_decoders() -> None:
    """Kill all decoding processes.

    multiprocessing would terminate them and wait, and hang if one is stopped.
    """
    for process in list(_living):
        process.kill()


def _enlarge_pipe(end: Connection) -> None:
    # On Linux only, up to a limit.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
