"""Threads that read shards, and are abandoned if storage hangs."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from wdsflow.shards.source.streams import end_commands
from wdsflow.training.sample_tasks import HangingShard

from .sample_catalog import Catalog

T = TypeVar("T")

# Seconds between two checks.
_LOOK = 0.2


class HangingShardsError(Exception):
    """Shards have yielded nothing for too long."""

    def __init__(self, reading: Sequence[HangingShard]) -> None:
        super().__init__(reading)
        self.reading = reading


def run_watched(
    do: Callable[[T], None], jobs: Sequence[T], threads: int, catalog: Catalog, patience: float
) -> None:
    """Call ``do`` with each job, in so many threads; raise the first error.

    Raises HangingShardsError if a shard of ``catalog`` yields nothing for ``patience`` seconds.
    """
    # Shared by the threads: next() is atomic.
    waiting = iter(jobs)
    ends: list[Future[None]] = []
    started: list[threading.Thread] = []
    for _ in jobs[:threads]:
        end: Future[None] = Future()
        # Daemons, so that one that hangs does not keep Python from ending.
        thread = threading.Thread(
            target=_run, args=(do, waiting, end), name="wdsflow-count", daemon=True
        )
        thread.start()
        ends.append(end)
        started.append(thread)
    while True:
        done, running = wait(ends, timeout=_LOOK, return_when=FIRST_EXCEPTION)
        for end in done:
            end.result()
        if not running:
            return
        reading = catalog.hanging_shards(patience)
        if reading:
            _drop(waiting)
            for thread in started:
                end_commands(thread)
            raise HangingShardsError(reading)


def _run(do: Callable[[T], None], waiting: Iterator[T], end: "Future[None]") -> None:
    try:
        for job in waiting:
            do(job)
        end.set_result(None)
    except BaseException as error:  # noqa: BLE001 - raised by result()
        # The other threads end after their current job.
        _drop(waiting)
        end.set_exception(error)


def _drop(waiting: Iterator[T]) -> None:
    deque(waiting, maxlen=0)
