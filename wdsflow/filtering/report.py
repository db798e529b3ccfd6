"""What a run did: every sample is accounted for."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.filtering.record import ShardFailure, ShardRecord
from wdsflow.filtering.sample import HARMLESS
from wdsflow.shards.escape import escape

_SHOWN = 20  # shards that are done again


@dataclass
class RunReport:
    """All shards of a run, or of its slice."""

    out: Path
    records: list[ShardRecord] = field(default_factory=list)  # in the order of the shards
    failures: list[ShardFailure] = field(default_factory=list)
    resumed: int = 0  # shards that an earlier run had finished
    changed: list[str] = field(default_factory=list)  # shards that were done again, and why
    tars: bool = True
    dry_run: bool = False
    whole: bool = True  # all shards of all slices are done
    waits_for: tuple[str, ...] = ()  # scores that compare all samples, where shards are missing: nothing was decided
    bytes_out: int = 0
    quarantine: Path | None = None

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        for record in self.records:
            record.check()

    @property
    def lost(self) -> bool:
        """Whether any part of a shard could not be read."""
        damages = [damage for record in self.records for damage in record.damage]
        return any(not any(text in damage for text in HARMLESS) for damage in damages)

    def total(self, name: str) -> int:
        """Sum a number over the shards."""
        return sum(int(getattr(record, name)) for record in self.records)

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by name over the shards."""
        total: Counter[str] = Counter()
        for record in self.records:
            total.update(getattr(record, name))
        return total

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the funnel, line by line; the numbers add up."""
        samples, kept = self.total("samples"), self.total("kept")
        width = max(len(f"{samples:,}"), 6)
        yield f"{samples:>{width},}  samples in {_number(len(self.records), 'shard')}{self._resumed()}"
        if self.tars:
            yield from _counted("-", "dropped by", self.merged("dropped"), samples, width)
            yield from _counted("-", "quarantined:", self.merged("quarantined"), samples, width)
            yield f"{kept:>{width},}  kept{_share(kept, samples)}{' (nothing was written)' if self.dry_run else ''}"
        failed = self.merged("failed")
        for what, count in _sorted(failed):
            yield f"{count:>{width},}  could not be computed: {escape(what, 300)}"
        left = self.merged("left_out")
        if left:
            parts = ", ".join(f"{count:,} {escape(what)}" for what, count in _sorted(left))
            yield f"members that belong to no sample, left out: {parts}"
        for record in self.records:
            for damage in record.damage:
                yield f"damaged: {escape(record.url, 300)}: {escape(damage, 300)}"
        for change in self.changed[:_SHOWN]:
            yield f"done again: {escape(change, 600)}"
        if len(self.changed) > _SHOWN:
            yield f"done again: {len(self.changed) - _SHOWN:,} more"
        for failure in self.failures:
            yield f"not done: {escape(failure.url, 300)}: {escape(failure.reason, 600)}"
        if self.waits_for:
            yield (
                f"nothing was decided: {', '.join(self.waits_for)} looks at the samples of all shards "
                "(the others are scored)"
            )

    def _resumed(self) -> str:
        return f", {self.resumed:,} of them done before" if self.resumed else ""


def _counted(sign: str, verb: str, counts: Counter[str], samples: int, width: int) -> Iterable[str]:
    for what, count in _sorted(counts):
        yield f"{sign}{count:>{width - 1},}  {verb} {escape(what, 300)}{_share(count, samples)}"


def _sorted(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _share(count: int, whole: int) -> str:
    return f"  ({count / whole:.1%})" if whole else ""


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
