"""Joins that are refused, because samples and rows do not match."""

from collections.abc import Sequence

from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many

from .joined_fields import JoinedFields

# Values.
_SHOWN = 3


class JoinMismatch(ValueError):
    """Samples and the rows of a table do not match.

    Attributes:
        candidate_columns: columns of the table that may have the values to join on.
        is_ambiguous: each of the samples could get the first of its rows.
        differing_column: samples have other values there than their rows; a possible join.
    """

    def __init__(
        self,
        message: str,
        *,
        candidate_columns: Sequence[str] = (),
        is_ambiguous: bool = False,
        differing_column: str = "",
    ) -> None:
        super().__init__(message)
        self.candidate_columns = tuple(candidate_columns)
        self.is_ambiguous = is_ambiguous
        self.differing_column = differing_column


def no_match_error(join: JoinedFields, samples: int, values: Sequence[str]) -> JoinMismatch:
    """Return the error for a join in which no sample has a row.

    It shows examples of both sides. ``values``: the values to join on of some samples.
    """
    if not join.index.rows:
        return JoinMismatch(f"{join.table} has no rows")
    lines = [f"none of {how_many(samples, 'sample')} has a row in {join.table}"]
    if values:
        lines.append(f"  the samples have {_examples_text(values)}")
    else:
        lines.append(f"  no sample has {join.on.kind} {join.on.name}".rstrip())
    if join.index.examples:
        lines.append(
            f"  the table has {_examples_text(join.index.examples)} in column {join.on.column}"
        )
    else:
        lines.append(f"  column {join.on.column} has no values")
    return JoinMismatch("\n".join(lines), candidate_columns=join.other_columns[:_SHOWN])


def all_withheld_error(join: JoinedFields, withheld: int) -> JoinMismatch:
    """Return the error for samples all of whose rows are ambiguous, so that none gets its row."""
    return JoinMismatch(
        f"{join.on} does not identify samples of {join.table}: {how_many(withheld, 'sample')} with a row, all of them ambiguous",
        is_ambiguous=True,
    )


def ambiguous_join_error(
    join: JoinedFields, several: int, shared: int, examples: Sequence[str]
) -> JoinMismatch:
    """Return the error for samples with several rows, and rows that several samples share."""
    parts = []
    if several:
        parts.append(f"{how_many(several, 'sample')} with several rows of the table each")
    if shared:
        parts.append(f"{how_many(shared, 'row')} with several samples each")
    shown = f", such as {_examples_text(examples)}" if examples else ""
    return JoinMismatch(
        f"{join.on} does not identify samples of {join.table}: {enumeration(parts)}{shown}",
        is_ambiguous=True,
    )


def _examples_text(values: Sequence[str]) -> str:
    return ", ".join(escape(value, 100) for value in values[:_SHOWN])
