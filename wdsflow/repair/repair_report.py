"""The report of a repair: every member and every sample is accounted for."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wdsflow.records.line import Counts, NewShard, reason_lines
from wdsflow.records.report import Report
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .repair_plan import RepairPlan


@dataclass
class ShardRepair(NewShard):
    """The outcome of one shard: all members, and all samples."""

    members: int = 0  # entries in the input, including those after damage
    written: int = 0
    made: int = 0  # captions that were not members before
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> members
    samples: int = 0
    samples_written: int = 0
    samples_dropped: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)  # fix -> members or samples
    missed: Counter[str] = field(default_factory=Counter)  # requested change that was not possible -> samples
    applied: Counter[str] = field(default_factory=Counter)  # option -> fields that it changed
    renamed_key: str = ""  # an example of a key that several samples have, and that of the second one now

    @property
    def counted(self) -> int:
        """The samples of the output."""
        return self.samples_written

    @property
    def unread(self) -> bool:
        """Whether it could not be read at all."""
        return bool(self.lost) and not self.members

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of members and of samples."""
        yield Counts("members", self.members, self.written, self.dropped, self.made)
        yield Counts("samples", self.samples, self.samples_written, self.samples_dropped)


@dataclass
class RepairReport(Report[ShardRepair]):
    """The outcomes of all shards."""

    shards: list[ShardRepair] = field(default_factory=list)
    dry_run: bool = False
    plan: RepairPlan = field(default_factory=RepairPlan)

    @property
    def lost(self) -> bool:
        """Whether anything could not be read."""
        return any(shard.lost for shard in self.shards)

    @property
    def idle(self) -> list[str]:
        """The options that changed no field."""
        applied = self.merged("applied")
        return [step.option for step in self.plan.steps() if step.names_field and not applied[step.option]]

    @property
    def warning(self) -> str:
        """Why no sample was written, "" if any was."""
        if self.total("samples_written"):
            return ""
        samples, dropped = self.total("samples"), self.merged("samples_dropped")
        if not samples:
            read = sum(not shard.unread for shard in self.shards)
            return f"nothing to write: {how_many(read, 'shard')} read, and none holds a sample"
        reason, count = max(dropped.items(), key=lambda item: (item[1], item[0]))
        written = "would be written" if self.dry_run else "was written"
        most = f", {count:,} of them" if count < samples else ""
        return f"nothing {written}: {samples:,} of {how_many(samples, 'sample')} left out{most} for {escape(reason)}"

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        if self.warning:
            yield self.warning
        for shard in self.shards:
            what = how_many(shard.samples_written, "sample") if shard.samples_written else "no samples: nothing written"
            yield from shard.lines(what)
        yield from self.again_lines("repaired")
        written, samples = self.total("samples_written"), how_many(self.total("samples"), "sample")
        did = "would be written" if self.dry_run else "written"
        yield f"{how_many(len(self.shards), 'shard')}: {written:,} of {samples} {did}{self.done_before}"
        dropped = self.merged("dropped")
        members, written, made = map(self.total, ("members", "written", "made"))
        yield Counts("members", members, written, dropped, made).line(left_out="dropped")
        yield from reason_lines("dropped", dropped)
        yield from reason_lines("samples dropped", self.merged("samples_dropped"))
        yield from reason_lines("fixed", self.merged("fixed"))
        yield from reason_lines("not possible", self.merged("missed"))
