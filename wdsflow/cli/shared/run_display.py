"""What ``filter`` and ``measure`` show on standard error while they work."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wdsflow.memory.sizes import format_size
from wdsflow.text.shell import escape
from wdsflow.text.words import duration

from .run_forecast import ProgressLines, RunForecast, RunMemory, rate_text
from .terminal import shard_bars
from .typed import Typed

if TYPE_CHECKING:
    from rich.progress import Progress

    from wdsflow.filtering.run_options import RunOptions
    from wdsflow.filtering.run_progress import RunSoFar

# Seconds after which memory is measured again.
_OLD = 2.0


@contextlib.contextmanager
def displayed(options: "RunOptions", typed: Typed) -> Iterator["RunOptions"]:
    """Yield the options with functions that print messages, and show progress until the block ends.

    Bars on a terminal show shards, time left, samples per second, memory and drops by term;
    elsewhere lines do, now and then. What a long run takes is printed as soon as it is known.
    """
    here = options.engine == "local"
    with shard_bars(
        "{task.fields[what]}", "{task.description}", counted="{task.fields[shards]} shards"
    ) as bars:
        shown = _Lines(typed, here=here) if bars is None else _Bars(bars, typed, here=here)
        yield replace(options, say=say, begin=shown.begin, watch=shown.watch)


def say(line: str) -> None:
    """Print a message on standard error; further lines of it are indented."""
    print(line if line.startswith(" ") else f"wdsflow: {line}", file=sys.stderr, flush=True)


class _Lines:
    """Progress where no bar can be drawn."""

    def __init__(self, typed: Typed, *, here: bool) -> None:
        self._forecast, self._here = RunForecast(typed), here
        self._lines = ProgressLines(here=here)

    def begin(self, _: int, __: str) -> None:
        """Begin a pass."""
        self._lines = ProgressLines(here=self._here)

    def watch(self, so_far: "RunSoFar") -> None:
        """Print what is due."""
        for line in (*self._forecast.lines(so_far), *self._lines.lines(so_far)):
            say(line)


class _Bars:
    """Progress on a terminal: a bar for each pass."""

    def __init__(self, bars: "Progress", typed: Typed, *, here: bool) -> None:
        self._bars, self._forecast, self._here = bars, RunForecast(typed), here
        self._live = _Live(here=here, writes=True)
        self._task: Any = None
        self._shards = self._done = 0

    def begin(self, total: int, activity: str) -> Callable[[Any], None]:
        """Begin a pass; return what is called with each finished shard."""
        self._live = _Live(here=self._here, writes=activity == "writing")
        self._shards, self._done = total, 0
        self._task = self._bars.add_task("", total=total, what=activity, shards=f"0/{total:,}")
        return self._finished

    def watch(self, so_far: "RunSoFar") -> None:
        """Show the samples of shards that are under way."""
        for line in self._forecast.lines(so_far):
            say(line)
        self._live.look(so_far)
        self._bars.update(
            self._task, completed=so_far.share * self._shards, description=self._live.text()
        )

    def _finished(self, result: Any) -> None:
        self._live.add(result)
        self._done += 1
        shards = f"{self._done:,}/{self._shards:,}"
        self._bars.update(self._task, shards=shards, description=self._live.text())
        if self._done == self._shards:
            self._bars.update(self._task, completed=self._shards)


class _Live:
    """The counts of a pass so far. ``writes``: it decides which samples are kept."""

    def __init__(self, *, here: bool, writes: bool) -> None:
        self._here, self._writes = here, writes
        self._started = time.monotonic()
        self._samples = self._kept = 0
        self._lost = Counter[str]()
        self._so_far: RunSoFar | None = None
        self._memory, self._weighed, self._bytes = RunMemory(), float("-inf"), 0

    def add(self, result: Any) -> None:
        """Add a finished shard."""
        self._samples += getattr(result, "samples", 0)
        self._kept += getattr(result, "kept", 0)
        self._lost.update(getattr(result, "dropped", {}))
        self._lost.update(getattr(result, "quarantined", {}))

    def look(self, so_far: "RunSoFar") -> None:
        """Take the samples of shards that are under way, and the memory from time to time."""
        self._so_far = so_far
        if self._here and so_far.elapsed - self._weighed >= _OLD:
            self._weighed, self._bytes = so_far.elapsed, self._memory.now()

    def text(self) -> str:
        """Return a line."""
        so_far = self._so_far
        if so_far is not None and so_far.samples > self._samples:
            parts = [f"{so_far.samples:,} samples", rate_text(so_far.samples, so_far.measured)]
        else:
            parts = [rate_text(self._samples, time.monotonic() - self._started)]
        if so_far is not None and so_far.left is not None:
            parts.append(f"{duration(so_far.left)} left")
        if self._bytes:
            parts.append(format_size(self._bytes))
        if self._writes:
            parts.append(f"kept {self._kept:,}")
        parts += [f"-{count:,} {escape(what, 40)}" for what, count in self._lost.most_common(3)]
        return ", ".join(parts)
