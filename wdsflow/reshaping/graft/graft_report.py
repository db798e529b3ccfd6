"""What a graft did: every sample and every row of the table is accounted for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from wdsflow.records.line import Counts, OneFile, reason_lines
from wdsflow.records.report import Report
from wdsflow.records.unfinished import uncounted_text
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .join_samples import Matches

NULL = "null in the table"


@dataclass
class ShardGraft(OneFile):
    """What became of one shard.

    ``matched``: a row was found and what it holds was set; ``without``: no value to join on; ``impossible``: a row was
    found, but nothing could be set. All but the damaged ones, and those of ``dropped``, are written.
    """

    url: str
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

    @property
    def counted(self) -> int:
        """The samples of the output, as readers count them."""
        return self.written - self.uncounted

    @property
    def is_final(self) -> bool:
        """Whether the next graft need not try again: the shard could be read."""
        return bool(self.output) or not self.lost

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of samples: by match, and as written."""
        yield _join_counts(self.samples, partial(getattr, self), partial(getattr, self))
        if self.output is not None:
            yield Counts("samples", self.samples, self.written, {"dropped": self.dropped, **self.damaged})


@dataclass
class GraftReport(Report[ShardGraft]):
    """What became of all shards, and of the rows of the table."""

    matches: Matches
    options: list[str] = field(default_factory=list)  # what was to be set
    unmatched: list[str] = field(default_factory=list)  # the first rows that no sample has
    listed: str = ""  # the file with all of them
    resolved: str = ""  # how ambiguous samples were resolved

    def check(self) -> None:
        """Raise RuntimeError if a row or a sample is unaccounted for."""
        _row_counts(self.matches).check(str(self.matches))
        super().check()

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

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from chain.from_iterable(map(_shard_lines, self.shards))
        yield from self.again_lines("grafted")
        written, samples = self.total("written"), self.total("samples")
        shards = how_many(len(self.shards), "shard")
        yield f"{shards}: {written:,} of {how_many(samples, 'sample')} written{self.done_before}"
        yield _join_counts(samples, self.total, self.merged).parts_line("matched", always=3)
        if self.resolved:
            yield f"  {self.resolved}"
        if self.total("uncounted"):
            yield f"  {uncounted_text(self.total('uncounted'))}"
        if self.total("dropped"):
            yield f"  left out: {self.total('dropped'):,} x no row was set"
        yield from reason_lines("not possible", self.merged("impossible"))
        yield from reason_lines("damaged, left out", self.merged("damaged"))
        yield from reason_lines("set", self.merged("set"))
        yield from reason_lines("not set", self.merged("missed"))
        yield from reason_lines("members left out", self.merged("left_out"))
        yield _row_counts(self.matches).parts_line("used", always=1)
        if self.unmatched:
            more = self.matches.unmatched_rows - len(self.unmatched)
            shown = ", ".join(escape(each, 60) for each in self.unmatched)
            yield f"  unmatched: {shown}{f' and {more:,} more' if more else ''}"
            yield f"  all of them: {escape(self.listed, 300)}"


def is_null(reason: str) -> bool:
    """Whether a value was not set because the table has none."""
    return reason.endswith(f": {NULL}")


def _join_counts(samples: int, total: Callable[[str], int], merged: Callable[[str], Counter[str]]) -> Counts:
    left = {"unmatched": total("unmatched"), "ambiguous": total("ambiguous"), "without field": total("without")}
    left |= {"not possible": merged("impossible").total(), "damaged": merged("damaged").total()}
    return Counts("samples", samples, total("matched"), left)


def _row_counts(rows: Matches) -> Counts:
    left = {"unmatched": rows.unmatched_rows, "ambiguous": rows.ambiguous_rows, "without a value": rows.rows_without}
    return Counts("rows of the table", rows.rows, rows.used, left)


def _shard_lines(shard: ShardGraft) -> Iterable[str]:
    what = how_many(shard.written, "sample") if shard.output else "nothing written"
    where = escape(shard.output, 300) if shard.output else "-"
    matched = f", {shard.matched:,} with a row" if shard.output else ""
    yield f"{escape(shard.url, 300)} -> {where}: {what}{matched}"
    for trouble in shard.lost:
        yield f"  lost: {escape(trouble, 300)}"
