"""What an index run did: every sample is accounted for, and every file."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wdsflow.records.counts import Counts, reason_lines
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many, listed

_SHOWN = 20


@dataclass
class IndexReport:
    """What became of all shards."""

    shards: int = 0
    resumed: int = 0  # shards whose sidecars were there already
    samples: int = 0
    indexed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> samples
    refused: list[tuple[str, str]] = field(default_factory=list)  # damaged shard, why
    unpack: dict[str, str] = field(default_factory=dict)  # damaged shard -> command, where repair brings nothing back
    lacking: list[tuple[str, str]] = field(default_factory=list)  # file that could not be made, why
    kept: list[str] = field(default_factory=list)  # files with other contents that something else wrote
    settings: list[str] = field(default_factory=list)  # files of the user's, which stay
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # files of shards that are gone
    manifests: list[str] = field(default_factory=list)  # those of --checksums, that are now right
    same: int = 0  # files that were right already
    stale_removed: int = 0  # temporary files of runs that were killed

    @property
    def ok(self) -> bool:
        """Whether all that was asked for is there."""
        return not (self.refused or self.lacking or self.kept)

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        self._counts.check(repr(self))

    @property
    def _counts(self) -> Counts:
        return Counts("samples", self.samples, self.indexed, self.left_out)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for title, rows in (("not indexed", self.refused), ("not written", self.lacking)):
            for name, why in rows[:_SHOWN]:
                yield f"{title}: {escape(name, 300)}: {escape(why, 300)}"
            if len(rows) > _SHOWN:
                yield f"{title}: {len(rows) - _SHOWN:,} more"
        for path in self.kept[:_SHOWN]:
            yield f"kept: {escape(path, 300)}: something else wrote it, with other contents"
        if len(self.kept) > _SHOWN:
            yield f"kept: {len(self.kept) - _SHOWN:,} more"
        for path in self.settings:
            yield f"kept: {escape(path, 300)}: your own settings"
        before = f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""
        counts = self._counts.sum(" sample" if self.samples == 1 else " samples", "indexed")
        yield f"{how_many(self.shards, 'shard')}{before}: {counts}"
        yield from reason_lines("left out", self.left_out)
        if self.removed:
            yield f"{how_many(len(self.removed), 'file')} of shards that are gone removed: {_some(self.removed)}"
        names = sorted(self.written)
        right = f"; {how_many(self.same, 'file')} right already" if self.same else ""
        yield f"{how_many(len(names), 'file')} written{f': {_some(names)}' if names else ''}{right}"


def _some(paths: Sequence[str]) -> str:
    names = [escape(path, 300) for path in paths]
    return listed(names) if len(names) <= 6 else f"{', '.join(names[:3])} ... {names[-1]}"
