"""What a repair did: every member and every sample is accounted for."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many


@dataclass
class ShardRepair:
    """What became of one shard. ``members + made == written + sum(dropped.values())``, and likewise for samples."""

    url: str
    output: str | None = None  # None: nothing was written
    members: int = 0  # entries in the input, after its damage too
    written: int = 0
    made: int = 0  # captions that were no members before
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> members
    samples: int = 0
    samples_written: int = 0
    samples_dropped: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)  # what was fixed -> members or samples
    missed: Counter[str] = field(default_factory=Counter)  # what was asked for and could not be done -> samples
    applied: Counter[str] = field(default_factory=Counter)  # option -> fields that it changed
    lost: list[str] = field(default_factory=list)  # what could not be read
    bytes: int = 0  # of the output
    inputs: list[dict[str, Any]] = field(default_factory=list)  # identity of what was read; not in the record's report

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {name: value for name, value in vars(self).items() if name != "inputs"}

    @staticmethod
    def from_dict(found: dict[str, Any]) -> "ShardRepair":
        """Read what ``to_dict`` returned. Raises TypeError if it is none."""
        report = ShardRepair(**found)
        for name in ("dropped", "samples_dropped", "fixed", "missed", "applied"):
            setattr(report, name, Counter(getattr(report, name)))
        return report

    @property
    def unread(self) -> bool:
        """Whether nothing of it could be read."""
        return bool(self.lost) and not self.members

    def check(self) -> None:
        """Raise RuntimeError if a member or a sample is unaccounted for."""
        if self.members + self.made != self.written + self.dropped.total():
            raise RuntimeError(f"{self.url}: members do not add up: {self}")
        if self.samples != self.samples_written + self.samples_dropped.total():
            raise RuntimeError(f"{self.url}: samples do not add up: {self}")


@dataclass
class RepairReport:
    """What became of all shards."""

    shards: list[ShardRepair]
    dry_run: bool = False
    stale_removed: int = 0  # temporary files of runs that were killed
    resumed: int = 0  # shards that an earlier repair had finished
    changed: list[str] = field(default_factory=list)  # shards that were repaired again, and why
    options: list[str] = field(default_factory=list)  # those that name fields

    @property
    def lost(self) -> bool:
        """Whether anything could not be read."""
        return any(shard.lost for shard in self.shards)

    @property
    def idle(self) -> list[str]:
        """The options that changed no field."""
        applied = self.merged("applied")
        return [option for option in self.options if not applied[option]]

    @property
    def warning(self) -> str:
        """Why no sample was written, "" if any was."""
        if self.total("samples_written"):
            return ""
        samples, gone = self.total("samples"), self.merged("samples_dropped")
        if not samples:
            read = sum(not shard.unread for shard in self.shards)
            return f"nothing to write: {how_many(read, 'shard')} read, and none holds a sample"
        reason, count = max(gone.items(), key=lambda item: (item[1], item[0]))
        written = "would be written" if self.dry_run else "was written"
        most = f", {count:,} of them" if count < samples else ""
        return f"nothing {written}: {samples:,} of {how_many(samples, 'sample')} left out{most} for {escape(reason)}"

    def total(self, name: str) -> int:
        """Sum a number over the shards."""
        return sum(int(getattr(shard, name)) for shard in self.shards)

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by reason over the shards."""
        return sum((getattr(shard, name) for shard in self.shards), Counter())

    def __str__(self) -> str:
        lines = [self.warning] if self.warning else []
        lines += [line for shard in self.shards for line in _shard_lines(shard)]
        lines += [f"repaired again: {escape(line, 600)}" for line in self.changed]
        did = "would be written" if self.dry_run else "written"
        before = f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""
        lines.append(
            f"{how_many(len(self.shards), 'shard')}: {self.total('samples_written'):,} of"
            f" {how_many(self.total('samples'), 'sample')} {did}{before}"
        )
        dropped = self.merged("dropped")
        lines.append(
            f"members: {self.total('members'):,} in + {self.total('made'):,} made"
            f" = {self.total('written'):,} out + {dropped.total():,} dropped"
        )
        lines += _counted("dropped", dropped)
        lines += _counted("samples dropped", self.merged("samples_dropped"))
        lines += _counted("fixed", self.merged("fixed"))
        lines += _counted("not possible", self.merged("missed"))
        return "\n".join(lines)


def _shard_lines(shard: ShardRepair) -> Iterable[str]:
    what = how_many(shard.samples_written, "sample") if shard.samples_written else "no samples: nothing written"
    yield f"{escape(shard.url, 300)} -> {escape(shard.output, 300) if shard.output else '-'}: {what}"
    for trouble in shard.lost:
        yield f"  lost: {escape(trouble, 300)}"


def _counted(title: str, counts: Counter[str]) -> Iterable[str]:
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {title}: {count:,} x {escape(reason)}"
