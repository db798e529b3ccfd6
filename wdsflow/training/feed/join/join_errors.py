"""Joins that are refused, because samples and rows do not match."""

from collections.abc import Sequence

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.joined_fields import JoinedFields
from wdsflow.training.stalls.field_fixes import command

# Values.
_SHOWN = 3


def no_match(
    join: JoinedFields, samples: int, values: Sequence[str], options: FeedOptions
) -> JoinError:
    """Return the error for samples without any row, with examples of both sides. ``values``: to join on, of some samples."""
    if not join.index.rows:
        return JoinError(f"{join.table} has no rows")
    lines = [f"none of {how_many(samples, 'sample')} has a row in {join.table}"]
    if values:
        lines.append(f"  the samples have {_such(values)}")
    else:
        lines.append(f"  no sample has {join.on.kind} {join.on.name}".rstrip())
    if join.index.examples:
        lines.append(f"  the table has {_such(join.index.examples)} in column {join.on.column}")
    else:
        lines.append(f"  column {join.on.column} has no values")
    others = join.other_columns[:_SHOWN]
    on = options.join_on.partition("=")[0]
    fixes = [f"  {command(options, join_on=f'{on}={column}')}" for column in others]
    if fixes:
        lines += ["To fix it, if another column has these values:", *fixes]
    return JoinError("\n".join(lines))


def ambiguous_join(
    join: JoinedFields, several: int, shared: int, examples: Sequence[str], options: FeedOptions
) -> JoinError:
    """Return the error for samples with several rows, and rows that several samples share."""
    parts = []
    if several:
        parts.append(f"{how_many(several, 'sample')} with several rows of the table each")
    if shared:
        parts.append(f"{how_many(shared, 'row')} with several samples each")
    shown = f", such as {_such(examples)}" if examples else ""
    each = command(options, join_ambiguous="each")
    return JoinError(
        f"{join.on} does not identify samples of {join.table}: {listed(parts)}{shown}\n"
        f"To give each of the samples the first row: {each}"
    )


def _such(values: Sequence[str]) -> str:
    return ", ".join(escape(value, 100) for value in values[:_SHOWN])
