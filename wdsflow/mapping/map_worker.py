"""Worker processes: their main loop and messages, their handles in the parent, and a limit on the memory of all."""

import contextlib
import errno
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from wdsflow.engines.peer import Peer, ending, likely_memory, receive, send, take_line, when_gone
from wdsflow.memory.batching.attempt import chain, is_out_of_memory, text_of
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import descendants, forget_peak, held, peak, private_data, resident


class MappingError(RuntimeError):
    """A row could not be mapped. ``index`` counts rows from 0; ``detail`` is the worker's traceback, if there is one."""

    def __init__(self, text: str, index: int = -1, detail: str = "") -> None:
        super().__init__(text)
        self.index, self.detail = index, detail

    def __str__(self) -> str:
        return f"{self.args[0]}\n\n{self.detail}" if self.detail else str(self.args[0])


class UnreadableError(ValueError):
    """A row cannot be unpickled in a worker; the row itself is not at fault."""


class MapSetup(NamedTuple):
    """The first message to a worker: its import path, and its ``MapWork``, pickled."""

    path: Sequence[str]
    work: bytes


@dataclass(frozen=True)
class RowBatch:
    """Rows ``start`` to ``stop``. ``rows``: each pickled, if a worker cannot fetch them itself.

    ``alone``: no other worker may run meanwhile, because the rows need all memory.
    """

    start: int
    stop: int
    rows: tuple[bytes, ...] = ()
    alone: bool = False

    def __len__(self) -> int:
        return self.stop - self.start

    def halves(self) -> "tuple[RowBatch, RowBatch]":
        """Return two batches of half the length."""
        middle = len(self) // 2
        return (
            RowBatch(self.start, self.start + middle, self.rows[:middle]),
            RowBatch(self.start + middle, self.stop, self.rows[middle:]),
        )


class MapOrder(NamedTuple):
    """A batch, the file for its results, and the bytes by which the worker may grow."""

    batch: RowBatch
    path: str
    room: int


class Measure(NamedTuple):
    """Memory of a batch: resident bytes before, at most and after; bytes of the results themselves."""

    before: int
    peak: int
    after: int
    results: int

    @property
    def grown(self) -> int:
        """Bytes that the batch took, without those that the worker keeps."""
        return max(self.peak - min(self.before, self.after), self.results, 0)


Kind: TypeAlias = Literal["memory", "full", "error", "died", "refused"]


@dataclass(frozen=True)
class Done:
    """A batch is mapped; ``answer``: the number of result rows, None if ``fn`` changes nothing."""

    answer: int | None
    measure: Measure


@dataclass(frozen=True)
class Failed:
    """A batch is not mapped. ``kind``: too little memory, a full disk, an error of ``fn``, a dead process, a bad setup."""

    kind: Kind
    text: str
    detail: str = ""
    measure: Measure | None = None


@dataclass
class FailedRow:
    """A row that could not be mapped. ``row`` is the row itself if it came from an iterable, None for a Dataset."""

    index: int
    error: str
    row: Any = field(default=None, repr=False)


def packed(value: object, what: str) -> bytes:
    """Pickle a value for a worker. Raises TypeError if that is impossible; ``what``: its name in the message."""
    import dill

    try:
        # Functions of __main__ and lambdas by value, as datasets.map.
        return bytes(dill.dumps(value, recurse=True))
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to a worker process ({type(error).__name__}: {error}). Open files, locks and models on"
            " a device belong inside of the function"
        ) from error


# EFBIG: a limit on the size of files.
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# Characters of an exception's text.
_LOOKED_AT = 10_000
# is_out_of_memory does not trust these texts in any exception; here, a wrong guess only costs a
# retry.
_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "insufficient memory",
    "unable to allocate",
    # Its stack would exceed the limit.
    "can't start new thread",
)


class MapWork(Protocol):
    """The work of a worker; picklable."""

    # Bytes of the latest results.
    results: int

    def begin(self) -> None:
        """Prepare in the worker."""

    def map(self, batch: RowBatch, path: str) -> int | None:
        """Map a batch, write its results to a file, and return the number of rows; None if nothing changes."""


def serve() -> None:
    """Map batches until the parent closes the connection."""
    # The parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line(prints=True)
    when_gone(line, _end)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        setup: MapSetup = receive(line)
        try:
            sys.path[:] = setup.path
            work: MapWork = pickle.loads(setup.work)  # noqa: S301 - by the parent
            work.begin()
        except Exception as error:  # noqa: BLE001 - sent to the parent
            send(line, _failed(error, kind="refused"))
            return
        send(line, resident(os.getpid()))
        while True:
            send(line, _mapped(work, receive(line)))


def _mapped(work: MapWork, order: MapOrder) -> Done | Failed:
    work.results = 0
    forget_peak()
    before = resident(os.getpid())
    failed, answer = None, None
    try:
        with _bound(order.room):
            answer = work.map(order.batch, order.path)
    except Exception as error:  # noqa: BLE001 - sent to the parent
        failed = _failed(error)
    most = peak()
    # The exception is freed before this.
    measure = Measure(before, most, resident(os.getpid()), work.results)
    return Done(answer, measure) if failed is None else replace(failed, measure=measure)


@contextlib.contextmanager
def _bound(room: int) -> Iterator[None]:
    """Let allocations fail that would make this process grow by more than ``room`` bytes, on Linux."""
    before = private_data()
    if not before or not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [before + room, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _failed(error: Exception, kind: Kind | None = None) -> Failed:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    full = any(isinstance(each, OSError) and each.errno in _FULL for each in chain(error))
    found: Kind = "memory" if _is_memory(error) else "full" if full else "error"
    return Failed(
        "refused" if isinstance(error, UnreadableError) else kind or found,
        text,
        traceback.format_exc(),
    )


def _is_memory(error: BaseException) -> bool:
    """Return whether an exception, or one of its causes, means a lack of memory."""
    texts = (
        text_of(each, _LOOKED_AT).lower() for each in chain(error) if isinstance(each, Exception)
    )
    return is_out_of_memory(error) or any(sign in text for text in texts for sign in _SIGNS)


def _end() -> None:
    """End at once, with all children, because the parent has ended."""
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
    os._exit(1)


# Freed memory should return to the system: large blocks at once, small ones when possible.
_GIVE_BACK = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}


class MapWorker(Peer):
    """A new Python process that maps batches. It is not a fork: the caller's threads, models and locks stay there."""

    def __init__(self, setup: MapSetup) -> None:
        # The worker does not import from the working directory until it has the caller's path.
        start = "sys.path[:] = filter(None, sys.path); from wdsflow.mapping.map_worker import serve; serve()"
        super().__init__(start, environment=_GIVE_BACK)
        self.batch: RowBatch | None = None
        # Bytes by which it may grow.
        self.room = 0
        # Bytes that it takes between batches; 0 until it has begun.
        self.idle = 0
        # Resident bytes after its first batch; 0 until then.
        self.base = 0
        # Why it was killed.
        self.killed = ""
        # It has died: answer() will return its end.
        with contextlib.suppress(OSError):
            self.send(setup)

    def give(self, batch: RowBatch, path: Path, room: int) -> None:
        """Send a batch."""
        self.batch, self.room = batch, room
        with contextlib.suppress(OSError):
            self.send(MapOrder(batch, str(path), room))

    def answer(self) -> Done | Failed | int:
        """Receive an answer: its resident bytes at the beginning, later the result of a batch."""
        try:
            return self.receive()  # type: ignore[no-any-return]
        except EOFError:
            return self.death()

    def death(self) -> Failed:
        """Wait for its end and that of its children, and return why it ended."""
        status = self.wait()
        by_itself = ending(status, "ended by itself (exit status") + ")" * (status >= 0)
        how = f"its process {by_itself}{likely_memory(status, 'a process')}"
        return Failed("memory" if self.killed else "died", self.killed or how)

    def takes(self) -> int:
        """Return the bytes that it and its children take now."""
        return held(self.pid) + sum(map(held, descendants(self.pid)))

    def kill(self, why: str) -> None:
        """Kill it and its children, unless it has ended."""
        if not self.gone():
            self.killed = self.killed or why
            self.end()


# Seconds.
_EVERY = 0.03
# Checks between two searches for children of workers.
_FAMILY = 8


class Watch:
    """A thread that watches the memory of this process and its workers until it is closed."""

    def __init__(self, memory: int, workers: Callable[[], Sequence[MapWorker]]) -> None:
        self.memory, self._workers = memory, workers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="wdsflow-memory")
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        looks, family = 0, dict[int, list[int]]()
        while not self._ended.wait(_EVERY):
            workers = list(self._workers())
            if looks % _FAMILY == 0:
                family = {worker.pid: descendants(worker.pid) for worker in workers}
            looks += 1
            pids = [pid for worker in workers for pid in (worker.pid, *family.get(worker.pid, ()))]
            # Resident bytes count shared pages more than once, but are quick to read.
            if sum(map(resident, (os.getpid(), *pids))) <= self.memory:
                continue
            takes = {worker: worker.takes() for worker in workers}
            busy = [worker for worker in workers if worker.batch is not None and not worker.killed]
            if busy and held(os.getpid()) + sum(takes.values()) > self.memory:
                max(busy, key=takes.__getitem__).kill(
                    f"it took more memory than is left of {format_size(self.memory)}"
                )
