"""What a graft did: every sample and every row of the table is accounted for."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wdsflow.shards.counts import uncounted_text
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from .grafted_sample import NULL
from .join_samples import Matches


@dataclass
class ShardGraft:
    """What became of one shard. ``samples == matched + unmatched + ambiguous + without + sum(impossible) + sum(damaged)``.

    ``matched``: a row was found and what it holds was set; ``without``: no value to join on; ``impossible``: a row was
    found, but nothing could be set. All but the damaged ones, and those of ``dropped``, are written.
    """

    url: str
    output: str | None = None  # None: nothing was written
    samples: int = 0
    written: int = 0
    uncounted: int = 0  # of the written ones, those that sizes.json does not count
    matched: int = 0
    unmatched: int = 0
    ambiguous: int = 0
    without: int = 0
    dropped: int = 0  # samples that did not match and were left out for that
    impossible: Counter[str] = field(default_factory=Counter)  # reason -> samples
    damaged: Counter[str] = field(default_factory=Counter)  # reason -> samples
    set: Counter[str] = field(default_factory=Counter)  # --set -> samples in which it was set
    missed: Counter[str] = field(default_factory=Counter)  # --set and why it was not set -> samples
    left_out: Counter[str] = field(default_factory=Counter)  # why members belong to no sample -> members
    lost: list[str] = field(default_factory=list)  # what could not be read
    bytes: int = 0  # of the output

    @staticmethod
    def from_dict(found: dict[str, Any]) -> "ShardGraft":
        """Read what ``vars`` returned. Raises TypeError if it is none."""
        report = ShardGraft(**found)
        for name in ("impossible", "damaged", "set", "missed", "left_out"):
            setattr(report, name, Counter(getattr(report, name)))
        return report

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        found = self.matched + self.unmatched + self.ambiguous + self.without
        if self.samples != found + self.impossible.total() + self.damaged.total():
            raise RuntimeError(f"{self.url}: samples do not add up: {self}")
        if self.output is not None and self.samples != self.written + self.dropped + self.damaged.total():
            raise RuntimeError(f"{self.url}: written samples do not add up: {self}")


@dataclass
class GraftReport:
    """What became of all shards, and of the rows of the table."""

    shards: list[ShardGraft]
    matches: Matches
    options: list[str] = field(default_factory=list)  # what was to be set
    resumed: int = 0  # shards that an earlier run had finished
    changed: list[str] = field(default_factory=list)  # shards that were written again, and why
    unmatched: list[str] = field(default_factory=list)  # the first rows that no sample has
    listed: str = ""  # the file with all of them
    resolved: str = ""  # how ambiguous samples were resolved

    def check(self) -> None:
        """Raise RuntimeError if a row or a sample is unaccounted for."""
        rows = self.matches
        if rows.rows != rows.used + rows.unmatched_rows + rows.ambiguous_rows + rows.rows_without:
            raise RuntimeError(f"rows of the table do not add up: {rows}")
        for shard in self.shards:
            shard.check()

    @property
    def lost(self) -> bool:
        """Whether anything could not be read."""
        return any(shard.lost or shard.damaged for shard in self.shards)

    @property
    def idle(self) -> list[str]:
        """What was to be set and was set in no sample."""
        done = self.merged("set")
        return [option for option in self.options if not done[option]]

    @property
    def refused(self) -> bool:
        """Whether samples or values could not be taken as they are; a null in the table is not among that."""
        return bool(self.merged("impossible")) or any(not is_null(reason) for reason in self.merged("missed"))

    def total(self, name: str) -> int:
        """Sum a number over the shards."""
        return sum(int(getattr(shard, name)) for shard in self.shards)

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by reason over the shards."""
        return sum((getattr(shard, name) for shard in self.shards), Counter())

    def __str__(self) -> str:
        lines = [line for shard in self.shards for line in _shard_lines(shard)]
        lines += [f"grafted again: {escape(line, 600)}" for line in self.changed]
        before = f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""
        written, samples = self.total("written"), how_many(self.total("samples"), "sample")
        lines.append(f"{how_many(len(self.shards), 'shard')}: {written:,} of {samples} written{before}")
        impossible, damaged = self.merged("impossible"), self.merged("damaged")
        parts = [f"{self.total(name):,} {name}" for name in ("matched", "unmatched", "ambiguous")]
        parts.append(f"{self.total('without'):,} without field")
        parts += [f"{impossible.total():,} not possible"] * bool(impossible)
        parts += [f"{damaged.total():,} damaged"] * bool(damaged)
        lines.append(f"samples: {' + '.join(parts)} = {self.total('samples'):,}")
        if self.resolved:
            lines.append(f"  {self.resolved}")
        if self.total("uncounted"):
            lines.append(f"  {uncounted_text(self.total('uncounted'))}")
        if self.total("dropped"):
            lines.append(f"  left out: {self.total('dropped'):,} x no row was set")
        lines += _counted("not possible", impossible)
        lines += _counted("damaged, left out", damaged)
        lines += _counted("set", self.merged("set"))
        lines += _counted("not set", self.merged("missed"))
        lines += _counted("members left out", self.merged("left_out"))
        lines += self._row_lines()
        return "\n".join(lines)

    def _row_lines(self) -> Iterable[str]:
        rows = self.matches
        parts = [f"{rows.used:,} used", f"{rows.unmatched_rows:,} unmatched"]
        parts += [f"{rows.ambiguous_rows:,} ambiguous"] * bool(rows.ambiguous_rows)
        parts += [f"{rows.rows_without:,} without a value"] * bool(rows.rows_without)
        yield f"rows of the table: {' + '.join(parts)} = {rows.rows:,}"
        if self.unmatched:
            more = rows.unmatched_rows - len(self.unmatched)
            yield f"  unmatched: {', '.join(escape(each, 60) for each in self.unmatched)}{f' and {more:,} more' if more else ''}"
            yield f"  all of them: {escape(self.listed, 300)}"


def is_null(reason: str) -> bool:
    """Whether a value was not set because the table has none."""
    return reason.endswith(f": {NULL}")


def _shard_lines(shard: ShardGraft) -> Iterable[str]:
    what = how_many(shard.written, "sample") if shard.output else "nothing written"
    where = escape(shard.output, 300) if shard.output else "-"
    matched = f", {shard.matched:,} with a row" if shard.output else ""
    yield f"{escape(shard.url, 300)} -> {where}: {what}{matched}"
    for trouble in shard.lost:
        yield f"  lost: {escape(trouble, 300)}"


def _counted(title: str, counts: Counter[str]) -> Iterable[str]:
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {title}: {count:,} x {escape(reason)}"
