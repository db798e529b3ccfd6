"""The report of a graft: every sample and every row of the table is accounted for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from wdsflow.joining.row_contents import NULL
from wdsflow.records.counts import Counts, reason_lines
from wdsflow.records.line import NewShard
from wdsflow.records.report import OutputsReport
from wdsflow.records.shard_counts import uncounted_text
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .matches import Matches

_REASONS = (
    ("not possible", "impossible"),
    ("damaged, left out", "damaged"),
    ("set", "set"),
    ("not set", "missed"),
    ("members left out", "left_out"),
)


@dataclass
class ShardGraft(NewShard):
    """The outcome of one shard.

    ``matched``: a row was found and its values were set; ``without``: no value to join on;
    ``impossible``: a row was found, but nothing could be set. All but the damaged ones, and those
    of ``dropped``, are written.
    """

    samples: int = 0
    written: int = 0
    # Written samples that sizes.json does not count.
    uncounted: int = 0
    matched: int = 0
    unmatched: int = 0
    ambiguous: int = 0
    without: int = 0
    # Samples that were left out because they did not match.
    dropped: int = 0
    # Reason -> samples.
    impossible: Counter[str] = field(default_factory=Counter)
    # Reason -> samples.
    damaged: Counter[str] = field(default_factory=Counter)
    # --set -> samples in which it was set.
    set: Counter[str] = field(default_factory=Counter)
    # --set and the reason it was not set -> samples.
    missed: Counter[str] = field(default_factory=Counter)
    # Reason why members belong to no sample -> members.
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def counted(self) -> int:
        """The number of samples that readers find in the output."""
        return self.written - self.uncounted

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of samples: by match, and as written."""
        yield _join_counts(self.samples, partial(getattr, self), partial(getattr, self))
        if self.output is not None:
            yield Counts(
                "samples", self.samples, self.written, {"dropped": self.dropped, **self.damaged}
            )


@dataclass
class GraftReport(OutputsReport[ShardGraft]):
    """The outcomes of all shards, and of the rows of the table."""

    matches: Matches
    # Values to set.
    options: list[str] = field(default_factory=list)
    # The first rows that no sample has.
    unmatched: list[str] = field(default_factory=list)
    # The file with all of them.
    listed: str = ""
    # How ambiguous samples were resolved.
    resolved: str = ""

    def check(self) -> None:
        """Raise RuntimeError if a row or a sample is unaccounted for."""
        _row_counts(self.matches).check(str(self.matches))
        super().check()

    @property
    def lost(self) -> bool:
        """Whether anything could not be read."""
        return any(shard.lost or shard.damaged for shard in self.shards)

    @property
    def values_not_set(self) -> list[str]:
        """The requested values that were set in no sample."""
        done = self.merged("set")
        return [option for option in self.options if not done[option]]

    @property
    def refused(self) -> bool:
        """Whether samples or values could not be used; nulls in the table do not count."""
        if self.merged("impossible"):
            return True
        return not all(reason.endswith(f": {NULL}") for reason in self.merged("missed"))

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        for shard in self.shards:
            result = f"{how_many(shard.written, 'sample')}, {shard.matched:,} with a row"
            yield from shard.lines(result if shard.output else "nothing written")
        yield from self.again_lines("grafted")
        written = self.total("written")
        samples = self.total("samples")
        shards = how_many(len(self.shards), "shard")
        yield f"{shards}: {written:,} of {how_many(samples, 'sample')} written{self.done_before}"
        yield _join_counts(samples, self.total, self.merged).parts_line("matched", always=3)
        if self.resolved:
            yield f"  {self.resolved}"
        if self.total("uncounted"):
            yield f"  {uncounted_text(self.total('uncounted'))}"
        if self.total("dropped"):
            yield f"  left out: {self.total('dropped'):,} x no row was set"
        for title, name in _REASONS:
            yield from reason_lines(title, self.merged(name))
        yield _row_counts(self.matches).parts_line("used", always=1)
        if self.unmatched:
            more = self.matches.unmatched_rows - len(self.unmatched)
            shown = ", ".join(escape(value, 60) for value in self.unmatched)
            if more:
                shown += f" and {more:,} more"
            yield f"  unmatched: {shown}"
            yield f"  all of them: {escape(self.listed, 300)}"


def _join_counts(
    samples: int, total: Callable[[str], int], merged: Callable[[str], Counter[str]]
) -> Counts:
    left_out = {
        "unmatched": total("unmatched"),
        "ambiguous": total("ambiguous"),
        "without field": total("without"),
        "not possible": merged("impossible").total(),
        "damaged": merged("damaged").total(),
    }
    return Counts("samples", samples, total("matched"), left_out)


def _row_counts(rows: Matches) -> Counts:
    left_out = {
        "unmatched": rows.unmatched_rows,
        "ambiguous": rows.ambiguous_rows,
        "without a value": rows.rows_without,
    }
    return Counts("rows of the table", rows.rows, rows.used, left_out)
