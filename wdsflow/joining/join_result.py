"""How the samples of all shards match the rows of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many

from .join_errors import all_withheld_error, ambiguous_join_error, no_match_error
from .join_options import Ambiguous
from .joined_fields import JoinedFields
from .joined_view import JoinCounts
from .row_use import RowUse
from .withheld_rows import count_withheld

# Values.
_SHOWN = 3


@dataclass
class JoinResult:
    """The counts of all shards: ``add`` those of each shard, in any order.

    Attributes:
        join: the join.
        use: which rows samples have.
        values: the first values to join on.
        mismatches: of samples that are not those of their rows, by the column that differs.
        examples: a line on the first sample of each of ``mismatches``.
    """

    join: JoinedFields
    use: RowUse = field(init=False)
    values: list[str] = field(default_factory=list)
    mismatches: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.use = RowUse(self.join.index, keeps_rows=self.join.withholds_rows)

    def add(self, shard: Shard, counts: JoinCounts) -> None:
        """Add the counts of a shard."""
        self.use.add_rows(shard, counts.rows)
        self.values += counts.values[: _SHOWN - len(self.values)]
        for column, count in counts.mismatches.items():
            self.mismatches[column] = self.mismatches.get(column, 0) + count
        for column, example in counts.examples.items():
            self.examples.setdefault(column, example)

    def withhold_ambiguous(self, shards: Sequence[Shard]) -> bool:
        """Withhold rows from ambiguous samples of all shards; return whether any loses its row.

        The join's ``ambiguous`` option decides which samples these are.

        These samples must be listed again. ``shards``: in their order.
        """
        if not self.join.withholds_rows:
            return False
        withheld = self.use.withhold(shards, self.join.ambiguous)
        self.join.withheld = withheld
        count = sum(map(count_withheld, withheld.values()))
        self.use.matched -= count
        self.use.withheld += count
        return bool(withheld)

    def check(self, ambiguous: Ambiguous, *, all_shards: bool) -> None:
        """Raise JoinMismatch if the join must be refused.

        ``all_shards``: all shards were read, so no other sample can have a row.
        """
        use = self.use
        if not use.matched and use.withheld:
            raise all_withheld_error(self.join, use.withheld)
        if not use.matched and (all_shards or not self.join.index.rows):
            raise no_match_error(self.join, use.samples, self.values)
        shared = use.count_shared()
        if use.with_several_rows + shared and ambiguous == "refuse":
            raise ambiguous_join_error(self.join, use.with_several_rows, shared, use.examples)

    def lines(self) -> list[str]:
        """Return lines on the samples with a row."""
        use, table = self.use, self.join.table
        if not use.matched:
            samples = how_many(use.samples, "sample")
            return [
                f"none of {samples} of the checked shards has a row in {table}; the feed looks for rows in all shards"
            ]
        lines = [f"{use.matched:,} of {how_many(use.samples, 'sample')} have a row of {table}"]
        if use.withheld:
            lines.append(withheld_line(use.withheld, self.join.ambiguous))
        return lines + list(mismatch_lines(self.mismatches, self.examples))


def withheld_line(count: int, ambiguous: Ambiguous) -> str:
    """Return a line on the samples that do not get their row."""
    get = "gets" if count == 1 else "get"
    return f"{how_many(count, 'ambiguous sample')} {get} no row: --join-ambiguous {ambiguous}"


def mismatch_lines(mismatches: Mapping[str, int], examples: Mapping[str, str]) -> Iterable[str]:
    """Yield a line for each column in which samples differ from their rows."""
    for column, count in mismatches.items():
        have = "has" if count == 1 else "have"
        yield f"{how_many(count, 'sample')} {have} another {column} than the row, such as {examples[column]}"
