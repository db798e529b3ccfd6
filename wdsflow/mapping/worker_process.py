"""The main loop of a worker process: it maps batches, within a limit on its memory."""

import contextlib
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from wdsflow.engines.messages import receive, send, take_line
from wdsflow.memory.usage import peak_resident_bytes, private_data_bytes, reset_peak, resident_bytes

from .failure_kinds import failure_of, refusal_of
from .messages import Done, Failed, MapOrder, MapSetup, Measure, RowBatch


class MapWork(Protocol):
    """The work of a worker; picklable."""

    # Bytes of the latest results.
    results: int

    def begin(self) -> None:
        """Prepare in the worker."""

    def map(self, batch: RowBatch, path: str) -> int | None:
        """Map a batch, write its results to a file, and return the number of rows.

        Returns None if nothing changes.
        """


def serve() -> None:
    """Map batches until the parent closes the connection."""
    # The parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line(prints=True)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        setup: MapSetup = receive(line)
        try:
            sys.path[:] = setup.path
            work: MapWork = pickle.loads(setup.work)  # noqa: S301 - by the parent
            work.begin()
        except Exception as error:  # noqa: BLE001 - sent to the parent
            send(line, refusal_of(error))
            return
        send(line, resident_bytes(os.getpid()))
        while True:
            order: MapOrder = receive(line)
            send(line, _mapped(work, order))


def _mapped(work: MapWork, order: MapOrder) -> Done | Failed:
    """Map a batch, and measure the memory that it takes."""
    work.results = 0
    reset_peak()
    before = resident_bytes(os.getpid())
    failed: Failed | None = None
    answer: int | None = None
    try:
        with _bounded(order.room):
            answer = work.map(order.batch, order.path)
    except Exception as error:  # noqa: BLE001 - sent to the parent
        failed = failure_of(error)
    most = peak_resident_bytes()
    # The exception is freed before this.
    measure = Measure(before, most, resident_bytes(os.getpid()), work.results)
    if failed is not None:
        return replace(failed, measure=measure)
    return Done(answer, measure)


@contextlib.contextmanager
def _bounded(room: int) -> Iterator[None]:
    """Make allocations fail that would grow this process by more than ``room`` bytes.

    On Linux only.
    """
    before = private_data_bytes()
    if not before or not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [before + room]
    limits += [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
