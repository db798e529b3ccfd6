"""The worker process: maps one batch after another, with a bound on what it may allocate, and measures."""

import contextlib
import errno
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from wdsflow.engines.peer import receive, send, take_line, when_gone
from wdsflow.memory.usage import forget_peak, peak, private_data, resident

from .map_messages import Done, Failed, MapOrder, MapSetup, Measure, RowBatch, UnreadableError

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))  # the last one: a limit on the size of files
_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "insufficient memory",
    "unable to allocate",
    "can't start new thread",  # its stack would be beyond the bound
)


class MapWork(Protocol):
    """What a worker does; picklable."""

    results: int  # bytes of the latest results

    def begin(self) -> None:
        """Prepare in the worker."""

    def map(self, batch: RowBatch, path: str) -> Any:
        """Map a batch, write its results to a file, and say what is in there."""


def serve() -> None:
    """Work on batches until the line ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    line = take_line(prints=True)
    when_gone(line, _end)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        setup: MapSetup = receive(line)
        try:
            sys.path[:] = setup.path
            work: MapWork = pickle.loads(setup.work)  # noqa: S301 - written by the process that asks
            work.begin()
        except Exception as error:  # noqa: BLE001 - told to the process that asks
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
    except Exception as error:  # noqa: BLE001 - told to the process that asks
        failed = _failed(error)
    most = peak()
    measure = Measure(before, most, resident(os.getpid()), work.results)  # what the exception held is free again
    return Done(answer, measure) if failed is None else replace(failed, measure=measure)


@contextlib.contextmanager
def _bound(room: int) -> Iterator[None]:
    """Let allocations fail that would make this process grow by more than ``room`` bytes, where the system can do that."""
    held = private_data()
    if not held or not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [held + room, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _failed(error: Exception, kind: Any = "") -> Failed:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, UnreadableError):
        kind = "refused"
    kind = kind or ("memory" if _is_memory(error) else "full" if _is_full_disk(error) else "error")
    return Failed(kind, text, traceback.format_exc())


def _is_full_disk(error: BaseException | None) -> bool:
    return any(isinstance(each, OSError) and each.errno in _FULL for each in _chain(error))


def _is_memory(error: BaseException | None) -> bool:
    """Say whether an exception, or one that it follows from, means that memory was not to be had."""
    for each in _chain(error):
        if isinstance(each, MemoryError) or type(each).__name__ == "OutOfMemoryError":
            return True
        if isinstance(each, OSError) and each.errno == errno.ENOMEM:
            return True
        text = ""
        with contextlib.suppress(Exception):  # some cannot be printed
            text = str(each).lower()
        if isinstance(each, Exception) and any(sign in text for sign in _SIGNS):
            return True
    return False


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(20):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _end() -> None:
    """End at once as the process that asked is gone, with all that was started here."""
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
    os._exit(1)
