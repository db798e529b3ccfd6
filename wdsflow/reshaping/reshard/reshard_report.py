"""The report of a reshard: every sample is accounted for, and the evenness of an epoch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.records.line import Counts, OneFile, reason_lines
from wdsflow.records.report import OutputsReport
from wdsflow.shards.samples.tar_samples import is_harmless
from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, size

from .reshard_options import Grid


def evenness(samples: Sequence[int], grid: Grid) -> str:
    """Return a text on how many samples each worker gets from these shards, in order.

    >>> evenness([100, 100, 100, 100], Grid(2, 2))
    'even: 4 shards for 2 ranks x 2 workers; 1 shard and 100 samples for each worker'
    >>> evenness([100, 100, 50], Grid(1, 2))
    'uneven: 3 shards for 1 rank x 2 workers; 100 to 150 samples for each worker, the largest share is 1.20x the mean'
    """
    from wdsflow.readers.open_clip.versions import assign  # loads all readers, which takes longer than a small run

    who = f"{how_many(len(samples), 'shard')} for {how_many(grid.ranks, 'rank')} x {how_many(grid.workers, 'worker')}"
    shares = assign(samples, *grid)
    totals = [sum(share) for share in shares]
    idle = sum(not share for share in shares)
    if idle:
        return f"uneven: {who}; {how_many(idle, 'worker')} of {grid.readers:,} would get no shard"
    least, most = min(totals), max(totals)
    if most - least <= max(map(len, shares)) and most <= least * 1.01 + 1:
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        same = {len(share) for share in shares}
        number = f"{how_many(same.pop(), 'shard')} and " if len(same) == 1 else ""
        return f"even: {who}; {number}{each} sample{'s' * (most != 1)} for each worker"
    mean = sum(totals) / len(totals)
    return (
        f"uneven: {who}; {least:,} to {most:,} samples for each worker,"
        f" the largest share is {most / mean:.2f}x the mean"
    )


_LISTED = 10  # damaged inputs that are listed
_Ends = tuple[str, tuple[str, ...]]  # key and fields of a sample


@dataclass
class InputReport:
    """One input: its samples, and counts of omitted ones."""

    number: int
    url: Shard
    rows: int = 0  # samples that can be written
    samples: int = 0
    members: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> members that belong to no sample
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> samples that cannot be copied
    damage: list[str] = field(default_factory=list)
    identity: dict[str, object] = field(default_factory=dict)
    path: Path | None = None  # of a plain file to read: the input, or a copy that is unpacked or has plain headers
    apart: int = 0  # samples whose members are not next to each other
    apart_at: int = 0  # place of the first of them among the samples
    first: _Ends = ("", ())
    last: _Ends = ("", ())

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

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.rows, self.dropped).check(str(self))


@dataclass
class OutputReport(OneFile):
    """One written output."""

    samples: int = 0
    bytes: int = 0
    renamed: int = 0  # samples whose key was already in the shard
    examples: list[str] = field(default_factory=list)  # of them: "KEY -> NEW"

    @property
    def counted(self) -> int:
        """The number of its samples."""
        return self.samples


@dataclass
class PartReport:
    """The outputs of one part, in their order."""

    name: str  # "" for all samples
    folder: Path
    outputs: list[OutputReport] = field(default_factory=list)


@dataclass
class ReshardReport(OutputsReport[OutputReport]):
    """The outcomes of all samples."""

    inputs: list[InputReport]
    parts: list[PartReport]
    grid: Grid
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> samples
    removed: int = 0  # outputs of an earlier run that no longer have inputs

    @property
    def outcomes(self) -> Sequence[OutputReport]:
        """All outputs, in order."""
        return [output for part in self.parts for output in part.outputs]

    @property
    def samples(self) -> int:
        """Samples of the inputs."""
        return sum(found.samples for found in self.inputs)

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
        return any(found.lost or found.dropped for found in self.inputs)

    @property
    def empty(self) -> list[str]:
        """The parts without samples, if there are any samples."""
        return [part.name for part in self.parts if not part.outputs]

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.samples_written, self.left_out).check(str(dict(self.left_out)))

    def lines(self) -> Iterable[str]:
        """Yield the report."""
        hurt = [found for found in self.inputs if found.lost or found.dropped]
        for found in hurt[:_LISTED]:
            yield f"{escape(found.url, 300)}: {how_many(found.rows, 'sample')} of {found.samples:,} can be copied"
            yield from (f"  lost: {escape(trouble, 300)}" for trouble in found.lost[:3])
        if len(hurt) > _LISTED:
            yield f"and {how_many(len(hurt) - _LISTED, 'more damaged input')}"
        yield f"before: {evenness([found.samples for found in self.inputs if not found.unread], self.grid)}"
        for part in self.parts:
            yield from _part_lines(part, self.grid)
        yield from self.again_lines("written", _LISTED)
        if self.removed:
            yield f"removed: {how_many(self.removed, 'shard')} that an earlier run made of other inputs"
        yield f"{how_many(len(self.inputs), 'input')} -> {how_many(len(self.outcomes), 'shard')}{self.done_before}"
        yield Counts("samples", self.samples, self.samples_written, self.left_out).line()
        yield from reason_lines("left out", self.left_out)
        if self.renamed:
            examples = [each for output in self.outcomes for each in output.examples][:3]
            shown = ", ".join(escape(each, 200) for each in examples)
            yield f"renamed: {how_many(self.renamed, 'sample')} whose key was in the shard already, such as {shown}"
        members = sum((found.left_out for found in self.inputs), Counter[str]())
        if members:
            yield f"members that belong to no sample: {members.total():,} left out"
            yield from reason_lines("left out", members)


def _part_lines(part: PartReport, grid: Grid) -> Iterable[str]:
    name = f"{part.name}: " if part.name else ""
    if not part.outputs:
        yield f"{name}no samples: nothing written"
        return
    counts = [output.samples for output in part.outputs]
    least, most = min(counts), max(counts)
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    total = size(sum(output.bytes for output in part.outputs))
    shards = how_many(len(counts), "shard")
    yield f"{name}{how_many(sum(counts), 'sample')} in {shards} of {each}, {total}, in {escape(str(part.folder), 300)}"
    yield f"{name}after: {evenness(counts, grid)}"
