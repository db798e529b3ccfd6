"""What ``filter`` and ``measure`` show on standard error while they work."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from wdsflow.cli.shared.progress_bars import shard_bars
from wdsflow.cli.shared.typed import Typed
from wdsflow.filtering.run_options import LISTING

from .forecast import RunForecast
from .live_counts import LiveCounts
from .progress_lines import ListingLines, ProgressLines

if TYPE_CHECKING:
    from rich.progress import Progress

    from wdsflow.filtering.run_options import RunOptions
    from wdsflow.filtering.run_progress import RunSoFar


@contextlib.contextmanager
def showing_progress(options: "RunOptions", typed: Typed) -> Iterator["RunOptions"]:
    """Yield the options with functions that print messages, and show progress until the block ends.

    Bars on a terminal show shards, time left, samples per second, memory and drops by term;
    elsewhere lines do, now and then. What a long run takes is printed as soon as it is known.
    """
    here = options.engine == "local"
    with shard_bars(
        "{task.fields[activity]}", "{task.description}", counted="{task.fields[shards]} shards"
    ) as bars:
        if bars is None:
            lines = _LineDisplay(typed, here=here)
            yield replace(options, say=print_message, begin=lines.begin, watch=lines.watch)
        else:
            display = _BarDisplay(bars, typed, here=here)
            yield replace(options, say=print_message, begin=display.begin, watch=display.watch)


def print_message(line: str) -> None:
    """Print a message on standard error; further lines of it are indented."""
    print(line if line.startswith(" ") else f"wdsflow: {line}", file=sys.stderr, flush=True)


class _LineDisplay:
    """Progress where no bar can be drawn."""

    def __init__(self, typed: Typed, *, here: bool) -> None:
        self._here = here
        self._forecast = RunForecast(typed)
        self._lines = ProgressLines(here=here)

    def begin(self, total: int, activity: str) -> Callable[[object], None] | None:
        """Begin a pass, or a listing of all shards.

        The display watches a pass. A listing is reported shard by shard, by the returned function.
        """
        if activity == LISTING:
            return ListingLines(total, print_message).add
        self._lines = ProgressLines(here=self._here)
        return None

    def watch(self, so_far: "RunSoFar") -> None:
        """Print what is due."""
        for line in self._forecast.lines(so_far):
            print_message(line)
        for line in self._lines.lines(so_far):
            print_message(line)


class _BarDisplay:
    """Progress on a terminal: a bar for each pass."""

    def __init__(self, bars: "Progress", typed: Typed, *, here: bool) -> None:
        self._bars = bars
        self._here = here
        self._forecast = RunForecast(typed)
        # Of the pass.
        self._counts = LiveCounts(here=here, writes=True)
        self._task: Any = None
        self._shards = 0
        self._finished_shards = 0

    def begin(self, total: int, activity: str) -> Callable[[Any], None]:
        """Begin a pass, or a listing; return what is called with each finished shard."""
        if activity == LISTING:
            return self._begin_listing(total)
        self._counts = LiveCounts(here=self._here, writes=activity == "writing")
        self._shards = total
        self._finished_shards = 0
        self._task = self._bars.add_task("", total=total, activity=activity, shards=f"0/{total:,}")
        return self._finished

    def watch(self, so_far: "RunSoFar") -> None:
        """Show the samples of shards that are under way."""
        for line in self._forecast.lines(so_far):
            print_message(line)
        self._counts.update(so_far)
        completed = so_far.share * self._shards
        self._bars.update(self._task, completed=completed, description=self._counts.text())

    def _begin_listing(self, total: int) -> Callable[[Any], None]:
        """Begin a listing of all shards; return what is called with each of them."""
        task = self._bars.add_task("", total=total, activity=LISTING, shards=f"0/{total:,}")
        numbers = count(1)

        def listed(_: object) -> None:
            number = next(numbers)
            self._bars.update(task, completed=number, shards=f"{number:,}/{total:,}")
            if number == total:
                self._bars.remove_task(task)

        return listed

    def _finished(self, result: Any) -> None:
        self._counts.add(result)
        self._finished_shards += 1
        shards = f"{self._finished_shards:,}/{self._shards:,}"
        self._bars.update(self._task, shards=shards, description=self._counts.text())
        if self._finished_shards == self._shards:
            self._bars.update(self._task, completed=self._shards)
