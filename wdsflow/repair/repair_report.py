"""The report of a repair: every member and every sample is accounted for."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wdsflow.records.counts import Counts, reason_lines
from wdsflow.records.line import NewShard
from wdsflow.records.report import OutputsReport
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .repair_plan import RepairPlan, Step


@dataclass
class ShardRepair(NewShard):
    """The outcome of one shard: all members, and all samples.

    Attributes:
        members: entries in the input, including those after damage.
        written: members of the output.
        made: those of them that were not members before: captions.
        dropped: members that are not in the output, by reason.
        samples: samples of the input, regrouped.
        samples_written: those in the output.
        samples_dropped: the others, by reason.
        fixed: members or samples, by the fix of their structure.
        applied: members or samples that a step of the plan changed, by its option.
        missed: samples for which a step was not possible, by reason.
        renamed_key: an example of a key that several samples had, and that of the second one now.
        unchanged: "copied" or "linked" if the output is the input, byte for byte.
    """

    members: int = 0
    written: int = 0
    made: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    samples_written: int = 0
    samples_dropped: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    applied: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    renamed_key: str = ""
    unchanged: str = ""

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
class RepairReport(OutputsReport[ShardRepair]):
    """The outcomes of all shards."""

    shards: list[ShardRepair] = field(default_factory=list)
    dry_run: bool = False
    plan: RepairPlan = field(default_factory=RepairPlan)

    @property
    def lost(self) -> bool:
        """Whether anything could not be read."""
        return any(shard.lost for shard in self.shards)

    @property
    def steps_without_effect(self) -> list[Step]:
        """The steps that were to change samples and changed none."""
        applied = self.merged("applied")
        return [step for step in self.plan.steps() if step.must_change and not applied[step.option]]

    @property
    def warning(self) -> str:
        """Why no sample was written, "" if any was."""
        if self.total("samples_written"):
            return ""
        samples = self.total("samples")
        dropped = self.merged("samples_dropped")
        if not samples:
            read = sum(not shard.unread for shard in self.shards)
            return f"nothing to write: {how_many(read, 'shard')} read, and none holds a sample"
        reason, count = max(dropped.items(), key=lambda item: (item[1], item[0]))
        most = f", {count:,} of them" if count < samples else ""
        left_out = (
            f"{samples:,} of {how_many(samples, 'sample')} left out{most} for {escape(reason)}"
        )
        verb = "would be" if self.dry_run else "was"
        return f"nothing {verb} written: {left_out}"

    @property
    def difference(self) -> str:
        """How the samples differ from those that the plan predicted.

        "" if they do not differ, or if the plan predicted none.

        After an input has changed, or could not be read, a plan of before predicts nothing.
        """
        expected = self.plan.expected_samples
        written = self.total("samples_written")
        if expected is None or expected == written or self.changed or self.kept:
            return ""
        return f"the plan promised {how_many(expected, 'sample')}, and {written:,} were written"

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        if self.warning:
            yield self.warning
        for shard in self.shards:
            outcome = how_many(shard.samples_written, "sample")
            if not shard.samples_written:
                outcome = "no samples: nothing written"
            elif shard.unchanged:
                outcome += ", unchanged"
            yield from shard.lines(outcome)
        yield from self.again_lines("repaired")
        written = self.total("samples_written")
        samples = how_many(self.total("samples"), "sample")
        verb = "would be written" if self.dry_run else "written"
        yield f"{how_many(len(self.shards), 'shard')}: {written:,} of {samples} {verb}{self.done_before}"
        for method in ("copied", "linked"):
            count = sum(shard.unchanged == method for shard in self.shards)
            if count:
                yield f"unchanged: {how_many(count, 'shard')}, {method} byte for byte"
        yield from self._count_lines()

    def _count_lines(self) -> Iterator[str]:
        """Yield the sums, and what was changed by step."""
        dropped = self.merged("dropped")
        members, written, made = map(self.total, ("members", "written", "made"))
        yield Counts("members", members, written, dropped, made).line(left_out="dropped")
        yield from reason_lines("dropped", dropped)
        yield from reason_lines("samples dropped", self.merged("samples_dropped"))
        yield from reason_lines("fixed", self.merged("fixed"))
        key = next((shard.renamed_key for shard in self.shards if shard.renamed_key), "")
        if key:
            yield f"  new keys, for example: {escape(key, 300)}"
        applied = self.merged("applied")
        for step in self.plan.steps():
            if applied[step.option]:
                yield f"  step: {applied[step.option]:,} x {escape(step.action, 200)}"
        yield from reason_lines("not possible", self.merged("missed"))
