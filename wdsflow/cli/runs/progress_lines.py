"""Progress of a run as lines, for where no bar can be drawn."""

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import CachedPss, descendants
from wdsflow.text.words import duration, how_many

if TYPE_CHECKING:
    from wdsflow.filtering.run_progress import RunSoFar

# Seconds after the begin.
_FIRST_LINES = (30.0, 60.0, 120.0, 240.0, 480.0)
_THEN_EVERY = 600.0


class ProgressLines:
    """Lines after 30 s, 1, 2, 4 and 8 minutes, then every 10.

    ``here``: all processes of the run are on this machine.
    """

    def __init__(self, *, here: bool) -> None:
        self._due = _DueTimes()
        self._memory = RunMemory() if here else None

    def lines(self, so_far: "RunSoFar") -> Iterator[str]:
        """Yield the line to print now, if one is due."""
        if not self._due.is_due(so_far.elapsed):
            return
        parts = [
            how_many(so_far.samples, "sample"),
            f"{so_far.done:,} of {how_many(so_far.shards, 'shard')} done",
        ]
        if so_far.samples:
            parts.append(rate_text(so_far.samples, so_far.measured))
        if so_far.left is not None:
            parts.append(f"about {duration(so_far.left)} left")
        if self._memory is not None:
            parts.append(f"{format_size(self._memory.now())} of memory")
        yield f"{so_far.activity} for {duration(so_far.elapsed)}: {', '.join(parts)}"


class ListingLines:
    """Lines on a listing of all shards, at the same times. ``say`` prints one."""

    def __init__(self, shards: int, say: Callable[[str], object]) -> None:
        self._shards = shards
        self._say = say
        self._due = _DueTimes()
        self._began = time.monotonic()
        self._done = 0

    def add(self, _: object) -> None:
        """Note a listed shard; print the line that is due."""
        self._done += 1
        elapsed = time.monotonic() - self._began
        if self._due.is_due(elapsed):
            left = elapsed / self._done * (self._shards - self._done)
            done = f"{self._done:,} of {how_many(self._shards, 'shard')} done"
            self._say(f"listing for {duration(elapsed)}: {done}, about {duration(left)} left")


class _DueTimes:
    """The times at which lines are due."""

    def __init__(self) -> None:
        # Seconds after the begin.
        self._times = list(_FIRST_LINES)

    def is_due(self, elapsed: float) -> bool:
        """Return whether a line is due now, and that it is printed."""
        if elapsed < self._times[0]:
            return False
        while elapsed >= self._times[0]:
            last = self._times.pop(0)
            if not self._times:
                self._times.append(last + _THEN_EVERY)
        return True


class RunMemory:
    """The memory of this process and its descendants; shared pages count once (PSS)."""

    def __init__(self) -> None:
        self._held = CachedPss()

    def now(self) -> int:
        """Return bytes."""
        processes = (os.getpid(), *descendants(os.getpid()))
        return sum(map(self._held, processes))


def rate_text(samples: int, seconds: float) -> str:
    """Return samples in a second, or the seconds of a sample if they are more.

    >>> rate_text(100, 2.0), rate_text(2, 13.0)
    ('50 samples/s', '6.5 s a sample')
    """
    rate = samples / max(seconds, 1e-3)
    if rate >= 1 or not samples:
        return f"{rate:,.0f} samples/s"
    return f"{duration(seconds / samples)} a sample"
