"""Progress of a run as lines, for where no bar can be drawn."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import HeldMemory, descendants
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
        # Seconds after the begin.
        self._due = list(_FIRST_LINES)
        self._memory = RunMemory() if here else None

    def lines(self, so_far: "RunSoFar") -> Iterator[str]:
        """Yield the line to print now, if one is due."""
        if so_far.elapsed < self._due[0]:
            return
        while so_far.elapsed >= self._due[0]:
            last = self._due.pop(0)
            if not self._due:
                self._due.append(last + _THEN_EVERY)
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


class RunMemory:
    """The memory of this process and of all that it started, where shared pages count once (PSS)."""

    def __init__(self) -> None:
        self._held = HeldMemory()

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
