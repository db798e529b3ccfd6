"""Texts about a run that is under way: what all of it takes, and how far it is."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import HeldMemory, descendants
from wdsflow.shards.written_names import spelled
from wdsflow.text.words import duration, how_many

from .typed import Typed, free

if TYPE_CHECKING:
    from wdsflow.filtering.run_progress import RunSoFar

# Seconds of a whole run from which it is announced, and from which a part of it may be tried first.
LONG, VERY_LONG = 600.0, 3600.0
# Seconds after the begin.
_FIRST_LINES = (30.0, 60.0, 120.0, 240.0, 480.0)
_THEN_EVERY = 600.0
# Shards to make of a single one.
_PARTS = 16


class RunForecast:
    """What a long run takes, announced once; and once more if it turns out to be very long."""

    def __init__(self, typed: Typed) -> None:
        self._typed, self._announced = typed, 0.0

    def lines(self, so_far: "RunSoFar") -> Iterator[str]:
        """Yield the lines to print now, if there are any."""
        total = so_far.total
        if total is None or total < LONG or self._announced >= VERY_LONG:
            return
        if self._announced and total < VERY_LONG:
            return
        self._announced = total
        yield forecast_text(so_far, total)
        if total >= VERY_LONG:
            yield from self._advice(so_far)

    def _advice(self, so_far: "RunSoFar") -> Iterator[str]:
        if so_far.shards == 1:
            yield "  only whole shards are kept when it is interrupted, and this is a single one"
            if not so_far.first.hides:
                url, smaller = spelled(so_far.first), free(Path("smaller"))
                yield f"  to make smaller ones first: {self._typed.look('reshard', url, out=smaller, shards=_PARTS)}"
            return
        if not self._typed.given.get("dry_run"):
            yield "  Ctrl-C keeps finished shards, and the same command resumes"
        if not so_far.first.hides:
            out = free(Path("trial")) if "out" in self._typed.given else None
            whole = dict.fromkeys(("restart", "index", "count", "export", "quarantine"))
            yield f"  to try one shard: {self._typed.again(urls=[spelled(so_far.first)], out=out, **whole)}"


def forecast_text(so_far: "RunSoFar", total: float) -> str:
    """Return what the whole run takes, and the measurement that says so."""
    each = duration(so_far.measured / so_far.samples)
    models = f", models on {', '.join(so_far.devices)}" if so_far.devices else ""
    return (
        f"about {duration(total)} for {how_many(so_far.shards, 'shard')}:"
        f" {how_many(so_far.samples, 'sample')} took {duration(so_far.measured)} ({each} a sample{models}),"
        f" {100 * so_far.share:.2g}% of the {so_far.by}"
    )


def rate_text(samples: int, seconds: float) -> str:
    """Return samples in a second, or the seconds of a sample if they are more.

    >>> rate_text(100, 2.0), rate_text(2, 13.0)
    ('50 samples/s', '6.5 s a sample')
    """
    rate = samples / max(seconds, 1e-3)
    return (
        f"{rate:,.0f} samples/s"
        if rate >= 1 or not samples
        else f"{duration(seconds / samples)} a sample"
    )


class ProgressLines:
    """Lines for where no bar can be drawn: after 30 s, 1, 2, 4 and 8 minutes, then every 10.

    ``here``: all processes of the run are on this machine.
    """

    def __init__(self, *, here: bool) -> None:
        self._due, self._memory = list(_FIRST_LINES), RunMemory() if here else None

    def lines(self, so_far: "RunSoFar") -> Iterator[str]:
        """Yield the line to print now, if one is due."""
        if so_far.elapsed < self._due[0]:
            return
        while so_far.elapsed >= self._due[0]:
            self._due = self._due[1:] or [self._due[0] + _THEN_EVERY]
        parts = [
            f"{how_many(so_far.samples, 'sample')}",
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
        return sum(map(self._held, (os.getpid(), *descendants(os.getpid()))))
