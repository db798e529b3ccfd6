"""The forecast of a long run: what all of it takes, and how to do less."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.typed import Typed, unused_path
from wdsflow.shards.written_names import pattern_of_shard
from wdsflow.text.words import duration, how_many

if TYPE_CHECKING:
    from wdsflow.filtering.run_progress import RunSoFar

# Seconds of a whole run from which it is announced, and from which a part of it may be tried first.
LONG = 600.0
VERY_LONG = 3600.0
# Shards to make of a single one.
_PARTS = 16
# Options that do not fit a trial of one shard.
_RUN_OPTIONS = ("restart", "index", "count", "export", "quarantine")


class RunForecast:
    """What a long run takes, announced once; and once more if it turns out to be very long."""

    def __init__(self, typed: Typed) -> None:
        self._typed = typed
        # Seconds; 0 before the first announcement.
        self._announced = 0.0

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
            yield from self._advice_on_single_shard(so_far)
            return
        if not self._typed.given.get("dry_run"):
            yield "  Ctrl-C keeps finished shards, and the same command resumes"
        # The url of the shard has a password that must not be printed.
        if so_far.first.has_hidden_part:
            return
        out = unused_path(Path("trial")) if "out" in self._typed.given else None
        trial = self._typed.command_with(
            urls=[pattern_of_shard(so_far.first)], out=out, **dict.fromkeys(_RUN_OPTIONS)
        )
        yield f"  to try one shard: {trial}"

    def _advice_on_single_shard(self, so_far: "RunSoFar") -> Iterator[str]:
        yield "  only whole shards are kept when it is interrupted, and this is a single one"
        if so_far.first.has_hidden_part:
            return
        smaller = unused_path(Path("smaller"))
        command = self._typed.other_command(
            "reshard", pattern_of_shard(so_far.first), out=smaller, shards=_PARTS
        )
        yield f"  to make smaller ones first: {command}"


def forecast_text(so_far: "RunSoFar", total: float) -> str:
    """Return what the whole run takes, and the measurement that says so."""
    per_sample = duration(so_far.measured / so_far.samples)
    models = f", models on {', '.join(so_far.devices)}" if so_far.devices else ""
    return (
        f"about {duration(total)} for {how_many(so_far.shards, 'shard')}:"
        f" {how_many(so_far.samples, 'sample')} took {duration(so_far.measured)} ({per_sample} a sample{models}),"
        f" {100 * so_far.share:.2g}% of the {so_far.by}"
    )
