"""The counts of a pass so far, for the text next to its bar."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from wdsflow.memory.sizes import format_size
from wdsflow.text.shell import escape
from wdsflow.text.words import duration, how_many

from .progress_lines import RunMemory, rate_text

if TYPE_CHECKING:
    from wdsflow.filtering.run_progress import RunSoFar

# Seconds after which memory is measured again.
_MEASURE_EVERY = 2.0
# Reasons that are shown.
_REASONS = 3


class LiveCounts:
    """The counts of a pass so far.

    ``here``: all processes of the run are on this machine. ``writes``: the pass decides which
    samples are kept.
    """

    def __init__(self, *, here: bool, writes: bool) -> None:
        self._here = here
        self._writes = writes
        self._started = time.monotonic()
        # Of finished shards.
        self._samples = 0
        self._kept = 0
        self._lost: Counter[str] = Counter()
        # The shards that are under way included.
        self._so_far: RunSoFar | None = None
        self._memory = RunMemory()
        self._measured = float("-inf")
        self._bytes = 0

    def add(self, result: Any) -> None:
        """Add a finished shard."""
        self._samples += getattr(result, "samples", 0)
        self._kept += getattr(result, "kept", 0)
        self._lost.update(getattr(result, "dropped", {}))
        self._lost.update(getattr(result, "quarantined", {}))

    def update(self, so_far: "RunSoFar") -> None:
        """Take the samples of shards that are under way, and the memory from time to time."""
        self._so_far = so_far
        if self._here and so_far.elapsed - self._measured >= _MEASURE_EVERY:
            self._measured = so_far.elapsed
            self._bytes = self._memory.now()

    def text(self) -> str:
        """Return a line."""
        so_far = self._so_far
        if so_far is not None and so_far.samples > self._samples:
            parts = [how_many(so_far.samples, "sample"), rate_text(so_far.samples, so_far.measured)]
        else:
            parts = [rate_text(self._samples, time.monotonic() - self._started)]
        if so_far is not None and so_far.left is not None:
            parts.append(f"{duration(so_far.left)} left")
        if self._bytes:
            parts.append(format_size(self._bytes))
        if self._writes:
            parts.append(f"kept {self._kept:,}")
        lost = self._lost.most_common(_REASONS)
        parts += [f"-{count:,} {escape(reason, 40)}" for reason, count in lost]
        return ", ".join(parts)
