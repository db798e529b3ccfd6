"""Joins that are refused, because samples and rows do not match."""

from collections.abc import Sequence

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.joined_fields import JoinedFields
from wdsflow.training.stalls.field_fixes import command

# Values.
_SHOWN = 3


def no_match(join: JoinedFields, samples: int, options: FeedOptions) -> JoinError:
    """Return the error, with examples of both sides."""
    if not join.index.rows:
        return JoinError(f"{join.table} has no rows")
    in_table = ", ".join(escape(value, 100) for value in join.index.examples)
    has = f"it has {in_table} in column {join.on.column}" if in_table else "its column is empty"
    column = command(options, join_on="key=COLUMN")
    return JoinError(
        f"none of {how_many(samples, 'sample')} has a row in {join.table}: {has}\n"
        f"To fix it, name the column with the keys of samples: {column}"
    )


def ambiguous_join(
    join: JoinedFields, several: int, shared: int, examples: Sequence[str], options: FeedOptions
) -> JoinError:
    """Return the error for samples with several rows, and rows that several samples share."""
    parts = []
    if several:
        parts.append(f"{how_many(several, 'sample')} with several rows of the table each")
    if shared:
        parts.append(f"{how_many(shared, 'row')} with several samples each")
    such = ", ".join(escape(value, 80) for value in examples[:_SHOWN])
    shown = f", such as {such}" if such else ""
    each = command(options, join_ambiguous="each")
    return JoinError(
        f"{join.on} does not identify samples of {join.table}: {listed(parts)}{shown}\n"
        f"To give each of the samples the first row: {each}"
    )
