"""The report of an indexing run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wdsflow.records.counts import Counts, reason_lines
from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many

_SHOWN = 20


@dataclass
class IndexReport:
    """The outcome of an indexing run."""

    shards: int = 0
    # Shards whose sidecars already existed.
    resumed: int = 0
    samples: int = 0
    indexed: int = 0
    # Reason -> samples.
    left_out: Counter[str] = field(default_factory=Counter)
    # Damaged shard, why.
    refused: list[tuple[str, str]] = field(default_factory=list)
    # Damaged shard -> command, if repair recovers nothing.
    unpack: dict[str, str] = field(default_factory=dict)
    # File that could not be made, why.
    lacking: list[tuple[str, str]] = field(default_factory=list)
    # Files of other programs with other contents.
    kept: list[str] = field(default_factory=list)
    # Files that the user has edited.
    settings: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    # Files of removed shards.
    removed: list[str] = field(default_factory=list)
    # Files that were up to date already.
    same: int = 0
    # Temporary files of runs that were killed.
    stale_removed: int = 0

    @property
    def ok(self) -> bool:
        """Whether all requested files are up to date."""
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
        kept = [(path, "something else wrote it, with other contents") for path in self.kept]
        for title, rows in (
            ("not indexed", self.refused),
            ("not written", self.lacking),
            ("kept", kept),
        ):
            for name, why in rows[:_SHOWN]:
                yield f"{title}: {escape(name, 300)}: {escape(why, 300)}"
            if len(rows) > _SHOWN:
                yield f"{title}: {len(rows) - _SHOWN:,} more"
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
    return enumeration(names) if len(names) <= 6 else f"{', '.join(names[:3])} ... {names[-1]}"
