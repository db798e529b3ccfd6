"""The report of a reshard: every sample is accounted for, and the evenness of an epoch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.records.counts import Counts, reason_lines
from wdsflow.records.line import OneFile
from wdsflow.records.report import OutputsReport
from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, size

from .evenness import evenness, span
from .reshard_options import Grid

# Inputs with damage that are listed, problems of each, and keys that were replaced.
_LISTED = 10
_LISTED_PROBLEMS = 3
_LISTED_KEYS = 3

# The key and the fields of a sample.
KeyAndFields = tuple[str, tuple[str, ...]]


@dataclass
class InputReport:
    """One input: its samples, and counts of omitted ones.

    Attributes:
        number: its position among the inputs.
        url: the shard.
        rows: the samples that can be written.
        samples: all samples.
        members: all members.
        left_out: members that belong to no sample, by reason.
        dropped: samples that cannot be copied, by reason.
        damage: a sentence for each kind of damage.
        identity: values that change when the input changes.
        path: a plain file to read: the input, or a copy that is unpacked or has plain headers. None
            if there is none.
        interleaved: samples whose members are not next to each other.
        first_interleaved: the position of the first of them among the samples.
        first: the first valid sample; no fields if there is none.
        last: the last one.
    """

    number: int
    url: Shard
    rows: int = 0
    samples: int = 0
    members: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    damage: list[str] = field(default_factory=list)
    identity: dict[str, object] = field(default_factory=dict)
    path: Path | None = None
    interleaved: int = 0
    first_interleaved: int = 0
    first: KeyAndFields = ("", ())
    last: KeyAndFields = ("", ())

    @property
    def location(self) -> Shard:
        """What to read: the plain file, or the input itself."""
        return self.url if self.path is None else Shard.file(str(self.path))

    @property
    def unread(self) -> bool:
        """Whether it could not be read at all."""
        return bool(self.lost) and not self.members

    @property
    def lost(self) -> list[str]:
        """The damage that loses data."""
        return [damage for damage in self.damage if not is_harmless(damage)]

    @property
    def is_whole(self) -> bool:
        """Whether all of it can be copied."""
        return not self.lost and not self.dropped

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.rows, self.dropped).check(str(self))


@dataclass
class OutputReport(OneFile):
    """One written output.

    Attributes:
        samples: its samples.
        bytes: its size.
        renamed: samples whose key was already in the shard.
        examples: some of them: "KEY -> NEW".
    """

    samples: int = 0
    bytes: int = 0
    renamed: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """The number of its samples."""
        return self.samples


@dataclass
class PartReport:
    """The outputs of one part, in their order; ``name`` is "" for all samples."""

    name: str
    folder: Path
    outputs: list[OutputReport] = field(default_factory=list)


@dataclass
class ReshardReport(OutputsReport[OutputReport]):
    """The outcomes of all samples.

    Attributes:
        inputs: the inputs, in order.
        parts: the parts, in order.
        grid: the ranks and workers for which the evenness of an epoch is reported.
        left_out: samples that were not written, by reason.
        removed: outputs of an earlier run that no longer have inputs.
    """

    inputs: list[InputReport]
    parts: list[PartReport]
    grid: Grid
    left_out: Counter[str] = field(default_factory=Counter)
    removed: int = 0

    @property
    def outcomes(self) -> Sequence[OutputReport]:
        """All outputs, in order."""
        return [output for part in self.parts for output in part.outputs]

    @property
    def samples(self) -> int:
        """Samples of the inputs."""
        return sum(report.samples for report in self.inputs)

    @property
    def samples_written(self) -> int:
        """Samples of all outputs."""
        return self.total("samples")

    @property
    def renamed(self) -> int:
        """Samples that got another key."""
        return self.total("renamed")

    @property
    def lost(self) -> bool:
        """Whether anything could not be read or written whole."""
        return not all(report.is_whole for report in self.inputs)

    @property
    def empty(self) -> list[str]:
        """The parts without samples, if there are any samples."""
        return [part.name for part in self.parts if not part.outputs]

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.samples_written, self.left_out).check(
            str(dict(self.left_out))
        )

    def lines(self) -> Iterable[str]:
        """Yield the report."""
        yield from self._damage_lines()
        samples_before = [report.samples for report in self.inputs if not report.unread]
        yield f"before: {evenness(samples_before, self.grid)}"
        for part in self.parts:
            yield from _part_lines(part, self.grid)
        yield from self.again_lines("written", _LISTED)
        if self.removed:
            yield f"removed: {how_many(self.removed, 'shard')} that an earlier run made of other inputs"
        yield f"{how_many(len(self.inputs), 'input')} -> {how_many(len(self.outcomes), 'shard')}{self.done_before}"
        yield Counts("samples", self.samples, self.samples_written, self.left_out).line()
        yield from reason_lines("left out", self.left_out)
        if self.renamed:
            examples = [example for output in self.outcomes for example in output.examples]
            shown = ", ".join(escape(example, 200) for example in examples[:_LISTED_KEYS])
            yield f"renamed: {how_many(self.renamed, 'sample')} whose key was in the shard already, such as {shown}"
        members: Counter[str] = Counter()
        for report in self.inputs:
            members += report.left_out
        if members:
            yield f"members that belong to no sample: {members.total():,} left out"
            yield from reason_lines("left out", members)

    def _damage_lines(self) -> Iterable[str]:
        damaged = [report for report in self.inputs if not report.is_whole]
        for report in damaged[:_LISTED]:
            yield f"{escape(report.url, 300)}: {how_many(report.rows, 'sample')} of {report.samples:,} can be copied"
            for problem in report.lost[:_LISTED_PROBLEMS]:
                yield f"  lost: {escape(problem, 300)}"
        if len(damaged) > _LISTED:
            yield f"and {how_many(len(damaged) - _LISTED, 'more damaged input')}"


def _part_lines(part: PartReport, grid: Grid) -> Iterable[str]:
    name = f"{part.name}: " if part.name else ""
    if not part.outputs:
        yield f"{name}no samples: nothing written"
        return
    counts = [output.samples for output in part.outputs]
    samples = how_many(sum(counts), "sample")
    shards = f"{how_many(len(counts), 'shard')} of {span(min(counts), max(counts))}"
    total = size(sum(output.bytes for output in part.outputs))
    yield f"{name}{samples} in {shards}, {total}, in {escape(str(part.folder), 300)}"
    yield f"{name}after: {evenness(counts, grid)}"
