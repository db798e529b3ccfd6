"""The report of a run: every sample is counted."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.memory.sizes import format_size
from wdsflow.records.counts import by_count
from wdsflow.records.report import OutputsReport
from wdsflow.records.run_folder import ShardFailure, ShardRecord
from wdsflow.records.shard_counts import uncounted_text
from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

# Listed shards that are processed again.
_SHOWN = 20
# Listed shards with the same failure.
_NAMED = 3


@dataclass
class RunReport(OutputsReport[ShardRecord]):
    """All shards of a run, or of its slice."""

    out: Path
    # In the order of the shards.
    records: list[ShardRecord] = field(default_factory=list)
    failures: list[ShardFailure] = field(default_factory=list)
    tars: bool = True
    dry_run: bool = False
    # All shards of all slices are done.
    whole: bool = True
    # Scores that compare all samples, if shards are missing: nothing was decided.
    waits_for: tuple[str, ...] = ()
    quarantine: Path | None = None
    # Shards of the run, or of its slice.
    requested: int = 0

    @property
    def outcomes(self) -> list[ShardRecord]:
        """The shards, in order."""
        return self.records

    @property
    def lost(self) -> bool:
        """Whether any part of a shard could not be read."""
        damages = [damage for record in self.records for damage in record.damage]
        return any(not is_harmless(damage) for damage in damages)

    @property
    def unread(self) -> bool:
        """Whether none of the shards could be processed."""
        return bool(self.failures) and len(self.failures) >= self.requested

    @property
    def warning(self) -> str:
        """A problem of the result as a whole, "" if none.

        It is set if nothing was kept, half or more was quarantined, a score has no value for half
        or more of the samples (of ``measure_shards``), or the shards had no samples; with the main
        reason and an example.
        """
        samples = self.total("samples")
        if not samples:
            if not self.records:
                return ""
            return f"no samples: {how_many(len(self.records), 'shard')} read, and none has any"
        if self.tars and not self.total("kept"):
            return self._nothing_kept_warning(samples)
        if 2 * self.merged("quarantined").total() >= samples:
            return self._quarantined_warning(samples)
        # A filter does not need the scores of samples that are decided without them.
        return "" if self.tars else self._missing_values_warning(samples)

    def _nothing_kept_warning(self, samples: int) -> str:
        """Return the most frequent reason why no sample was kept."""
        lost: Counter[tuple[str, str]] = Counter()
        for kind in ("dropped", "quarantined"):
            for reason, count in self.merged(kind).items():
                lost[kind, reason] = count
        (kind, reason), count = by_count(lost)[0]
        by = "by" if kind == "dropped" else "for"
        example = self._reason_with_example(kind, reason)
        return f"nothing was kept: {count:,} of {samples:,} samples were {kind} {by} {example}"

    def _quarantined_warning(self, samples: int) -> str:
        """Return the most frequent reason why half of the samples or more were quarantined."""
        quarantined = self.merged("quarantined")
        total = quarantined.total()
        reason, count = by_count(quarantined)[0]
        most = f", {count:,} of them" if count < total else ""
        outcome = "was quarantined" if self.tars else "cannot be measured"
        example = self._reason_with_example("quarantined", reason)
        return f"half or more {outcome}: {total:,} of {samples:,} samples{most} for {example}"

    def _missing_values_warning(self, samples: int) -> str:
        """Return a line if half of the samples or more lack a value for one reason.

        "" otherwise. The line has an example, which names the score.
        """
        failed = self.merged("failed")
        if not failed:
            return ""
        reason, count = by_count(failed)[0]
        if 2 * count < samples:
            return ""
        return f"no value for {count:,} of {samples:,} samples: {self._reason_with_example('failed', reason)}"

    def _reason_with_example(self, kind: str, reason: str) -> str:
        """Return a reason with its first sample."""
        for record in self.records:
            if f"{kind} {reason}" in record.examples:
                key, detail_text = record.examples[f"{kind} {reason}"]
                detail = f" ({escape(detail_text, 300)})" if detail_text else ""
                return f"{escape(reason, 300)}, such as {escape(key, 200)} in {escape(record.url, 300)}{detail}"
        return escape(reason, 300)

    def lines(self) -> Iterator[str]:
        """Yield the funnel, line by line; the numbers add up."""
        if self.warning:
            yield self.warning
        yield from self._funnel()
        left = self.merged("left_out")
        if left:
            parts = ", ".join(f"{count:,} {escape(reason)}" for reason, count in by_count(left))
            yield f"members that belong to no sample, left out: {parts}"
        yield from self._shard_lines()
        if self.waits_for:
            yield (
                f"nothing was decided: {', '.join(self.waits_for)} compares the samples of all shards "
                "(the others are measured)"
            )

    def _funnel(self) -> Iterator[str]:
        """Yield how many samples were read, dropped, quarantined, kept and changed."""
        samples = self.total("samples")
        width = max(len(f"{samples:,}"), 6)
        resumed = f", {self.resumed:,} of them done before" if self.resumed else ""
        yield f"{samples:>{width},}  samples in {how_many(len(self.records), 'shard')}{resumed}"
        if self.tars:
            yield from _funnel_lines("-", "dropped by", self.merged("dropped"), samples, width)
            yield from _funnel_lines(
                "-", "quarantined:", self.merged("quarantined"), samples, width
            )
            kept = self.total("kept")
            unwritten = " (nothing was written)" if self.dry_run else ""
            yield f"{kept:>{width},}  kept{_share(kept, samples)}{unwritten}"
            if self.total("uncounted"):
                yield f"{'':>{width}}  {uncounted_text(self.total('uncounted'))}"
        resized = self.merged("resized")
        if resized:
            before, after = resized["bytes before"], resized["bytes after"]
            sizes = f"{format_size(before)} -> {format_size(after)}"
            yield f"{resized['images']:>{width},}  images made smaller: {sizes}"
        for reason, count in by_count(self.merged("failed")):
            yield f"{count:>{width},}  could not be computed: {escape(reason, 300)}"

    def _shard_lines(self) -> Iterator[str]:
        """Yield which shards are damaged, were done again, or could not be processed."""
        for record in self.records:
            for damage in record.damage:
                yield f"damaged: {escape(record.url, 300)}: {escape(damage, 300)}"
        yield from self.again_lines("done", _SHOWN)
        if len(self.changed) > _SHOWN:
            yield f"done again: {len(self.changed) - _SHOWN:,} more"
        for urls, reason in self.reasons():
            names = ", ".join(escape(url, 300) for url in urls[:_NAMED])
            more = f" and {len(urls) - _NAMED:,} more" if len(urls) > _NAMED else ""
            yield f"not done: {names}{more}: {escape(reason, 600)}"

    def reasons(self) -> list[tuple[list[str], str]]:
        """Return the shards that could not be processed, by the reason."""
        urls_by_reason: dict[str, list[str]] = {}
        for failure in self.failures:
            urls_by_reason.setdefault(failure.reason, []).append(failure.url)
        return [(urls, reason) for reason, urls in urls_by_reason.items()]


def _funnel_lines(
    sign: str, verb: str, counts: Counter[str], samples: int, width: int
) -> Iterable[str]:
    for reason, count in by_count(counts):
        yield f"{sign}{count:>{width - 1},}  {verb} {escape(reason, 300)}{_share(count, samples)}"


def _share(count: int, whole: int) -> str:
    return f"  ({count / whole:.1%})" if whole else ""
