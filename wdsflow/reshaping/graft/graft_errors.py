"""Grafts that are refused before anything is written, because the join does not match."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many

if TYPE_CHECKING:
    from wdsflow.joining.join_on import JoinOn

    from .join_samples import SampleJoin
    from .matches import Contradiction, Matches

# Values.
_SHOWN = 3


class AmbiguousJoin(ValueError):
    """Samples that have several rows, or share a row."""


def refuse_ambiguous(matches: "Matches", on: str) -> None:
    """Raise AmbiguousJoin if there are any such samples."""
    if matches.by_rows + matches.by_samples:
        parts = []
        if matches.by_rows:
            parts.append(
                f"{how_many(matches.by_rows, 'sample')} with several rows of the table each"
            )
        if matches.by_samples:
            parts.append(f"{how_many(matches.by_samples, 'sample')} with the row of another sample")
        such = ", ".join(escape(each, 80) for each in matches.examples)
        raise AmbiguousJoin(f"{on} does not identify samples: {enumeration(parts)}, such as {such}")


class ContradictedJoin(ValueError):
    """Samples have the key of a row, but another url or sha256.

    ``column``: an alternative column to join on.
    """

    def __init__(self, contradiction: "Contradiction") -> None:
        samples = f"{contradiction.samples:,} of {contradiction.compared:,} compared samples"
        super().__init__(
            f"the keys are not those of the table: {samples} have another {contradiction.column};"
            " img2dataset gives samples new numbers in each download"
        )
        self.column = contradiction.column
        self.evidence = []
        for key, in_table, in_shard in contradiction.evidence:
            table = escape(in_table, 200)
            shard = escape(in_shard, 200)
            self.evidence.append(f"{escape(key, 60)}: the table has {table}, the shard {shard}")


class NoMatch(ValueError):
    """No sample has a row. ``advice``: lines with examples of both sides."""

    def __init__(self, text: str, *advice: str) -> None:
        super().__init__(text)
        self.advice = list(advice)


def no_match(
    samples: int, join: "SampleJoin", matches: "Matches", on: "JoinOn", table_name: str
) -> NoMatch:
    """Return the error, with examples of both sides."""
    if not join.table.rows:
        return NoMatch(f"{table_name} has no rows")
    if not samples:
        return NoMatch("the shards have no samples")
    if matches.by_rows + matches.by_samples:
        return NoMatch("all samples that have a row are ambiguous")
    in_shards = join.values_of_samples(_SHOWN)
    in_table = join.table.values_of_rows()[:_SHOWN]
    if in_shards:
        shards = f"the samples have {_such(in_shards)}"
    else:
        shards = f"no sample has {on.kind} {on.name}".rstrip()
    if in_table:
        table = f"the table has {_such(in_table)} in column {on.column}"
    else:
        table = f"column {on.column} has no values"
    return NoMatch(
        f"none of {how_many(samples, 'sample')} has a row in {table_name}", shards, table
    )


def _such(values: Sequence[str]) -> str:
    return ", ".join(escape(each, 100) for each in values)
