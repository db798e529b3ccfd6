"""Suggested fixes if a table and samples do not match: other options of the join.

Each command spells them as the user typed its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsflow.stages.caption_sources import Captions
from wdsflow.table_files.errors import NoColumn, NoTable, TableError

from .join_errors import JoinMismatch
from .join_on import parse_on

ChangedOptions = dict[str, str | tuple[str, ...]]
"""Options of a join, by name, with their new values."""


class JoinFix(NamedTuple):
    """A join that may match. ``action``: what it does, such as "join on the url"."""

    action: str
    changed: ChangedOptions


def mismatch_fixes(error: JoinMismatch, on: str) -> Iterator[JoinFix]:
    """Yield the joins that may match. ``on``: what was joined on."""
    if error.is_ambiguous:
        yield JoinFix("give each of the samples the first row", {"join_ambiguous": "each"})
    if error.differing_column:
        changed: ChangedOptions = {"join_on": f"json:{error.differing_column}"}
        yield JoinFix(f"join on the {error.differing_column}", changed)
    for column in error.candidate_columns:
        action = f"join on the column {column}, if it has these values"
        yield JoinFix(action, {"join_on": _with_column(on, column)})


def nearest_options(
    error: TableError, on: str, sets: Sequence[str], captions: Captions | None = None
) -> ChangedOptions:
    """Return join options with the existing table or column of the most similar name.

    Empty if none is similar.

    Args:
        error: why the table cannot be joined.
        on: what was joined on.
        sets: what was set.
        captions: of samples; some may be columns of the table.
    """
    if isinstance(error, NoTable):
        return {"join": error.nearest_table} if error.nearest_table else {}
    if not isinstance(error, NoColumn):
        return {}
    near = error.nearest_name(error.column)
    # A column that the table has twice is near to itself.
    if near in ("", error.column):
        return {}
    if parse_on(on).column == error.column:
        return {"join_on": _with_column(on, near)}
    changed: ChangedOptions = {}
    if captions is not None and error.column in captions.joined_columns:
        changed["caption"] = str(captions.with_column(error.column, near))
    new_sets = []
    for text in sets:
        target, _, column = text.partition("=")
        new_sets.append(f"{target}={near if column == error.column else column}")
    if new_sets != list(sets):
        changed["join_set"] = tuple(new_sets)
    return changed


def _with_column(on: str, column: str) -> str:
    """Return a join on the same value of samples, and another column."""
    return f"{on.partition('=')[0]}={column}"
