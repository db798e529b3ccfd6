"""Advice for graft and pack: tables, their columns, and the join with samples."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from wdsflow.records.working_folder import remote_url
from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration

from .refuse import refuse
from .typed import Typed, unused_path

if TYPE_CHECKING:
    from wdsflow.joining.join_errors import JoinMismatch
    from wdsflow.joining.join_on import WrongJoin
    from wdsflow.joining.join_options import JoinOptions
    from wdsflow.packing.folder_names import PatternName
    from wdsflow.packing.rows.folder_rows import HoldsTables
    from wdsflow.packing.rows.layouts import WhichColumn
    from wdsflow.reshaping.graft.graft_errors import ContradictedJoin, NoMatch
    from wdsflow.stages.caption_sources import Captions
    from wdsflow.table_files.errors import NoColumn, NoTable, TableError

# The values of --ambiguous, and what they do.
_RESOLUTIONS = {
    "first": "the first sample gets the first row",
    "each": "each of the samples gets the first row",
    "drop": "none of them gets any",
}
# The options of pack that name a column.
_PACK_COLUMNS = ("image", "caption", "key")
# Options that say nothing without --join.
_OF_A_JOIN = ("join_on", "join_ambiguous", "join_drop_unmatched")
# Columns that are suggested.
_SUGGESTED = 3


def report_no_match(error: "NoMatch", typed: Typed) -> NoReturn:
    """Report that no row belongs to a sample; exit with status 1, as the command is right."""
    print(f"wdsflow: nothing was written: {escape(str(error), 500)}", file=sys.stderr)
    for line in error.advice:
        print(f"  {escape(line, 500)}", file=sys.stderr)
    print(
        f"  see what samples have: {typed.other_command('inspect', *typed.given['urls'], keys=5)}",
        file=sys.stderr,
    )
    sys.exit(1)


def advise_on_ambiguous_join(_: Exception, typed: Typed) -> Iterator[str]:
    """Yield the command with each value of --ambiguous."""
    for value, outcome in _RESOLUTIONS.items():
        yield f"{outcome}: {typed.command_with(ambiguous=value)}"


def advise_on_contradiction(error: "ContradictedJoin", typed: Typed) -> Iterator[str]:
    """Yield the evidence that rows belong to other samples.

    Then yield a command that joins by the column that proves it.
    """
    yield from error.evidence
    on = "xxh3" if error.column == "image_xxh3" else f"json:{error.column}"
    yield f"join on the {error.column}: {typed.command_with(on=on)}"


def advise_on_join(error: "WrongJoin", typed: Typed) -> Iterator[str]:
    """Yield a join by a value in the json."""
    if error.text:
        option = "join_on" if "join_on" in typed.given else "on"
        example = typed.command_with(**{option: f"json:{error.text}"})
        yield f"for a value in the json: {example}"


def advise_on_column(error: "NoColumn", typed: Typed) -> Iterator[str]:
    """Yield the command with existing columns of similar names."""
    if "join" in typed.given:
        yield from advise_on_joined_table(error, typed)
        return
    yield from error.advice
    if typed.name == "pack":
        yield from _pack_columns(error, typed)
    else:
        yield from _graft_columns(error, typed)


def _pack_columns(error: "NoColumn", typed: Typed) -> Iterator[str]:
    near = error.nearest_name(error.column)
    if not near or near == error.column:
        return
    options = [name for name in _PACK_COLUMNS if typed.given.get(name) == error.column]
    if options:
        yield f"such as: {typed.command_with(**dict.fromkeys(options, near))}"


def _graft_columns(error: "NoColumn", typed: Typed) -> Iterator[str]:
    """Yield the command with existing columns, if each column that is named has one."""
    from wdsflow.joining.join_on import parse_on, parse_set

    on, fields = typed.given["on"], typed.given["fields"]
    join_column = parse_on(on).column
    near_join_column = error.nearest_name(join_column)
    if not near_join_column and len(error.names) > 1:
        near_join_column = next(filter(str.isprintable, error.names), "")
    replacements = {join_column: near_join_column}
    for value in parse_set(fields):
        replacements[value.column] = error.nearest_name(value.column)
    replacements |= {name: name for name in replacements if name in error.names}
    if error.column in error.names or not all(replacements.values()) or error.has_other_separator:
        return
    if replacements[join_column] != join_column:
        on = f"{on.partition('=')[0]}={replacements[join_column]}"
    new_fields = []
    for text in fields:
        field, _, column = text.partition("=")
        new_fields.append(f"{field}={replacements[column]}")
    yield f"such as: {typed.command_with(on=on, fields=new_fields)}"


def advise_on_table(error: "NoTable", typed: Typed) -> Iterator[str]:
    """Yield the command with a table of a similar name."""
    if "join" in typed.given:
        yield from advise_on_joined_table(error, typed)
    elif error.nearest_table and "tables" in typed.given:
        tables = [
            error.nearest_table if table == error.requested else table
            for table in typed.given["tables"]
        ]
        yield f"such as: {typed.command_with(tables=tables)}"
    elif error.nearest_table:
        yield f"such as: {typed.command_with(table=error.nearest_table)}"


def advise_on_joined_table(error: "TableError", typed: Typed) -> Iterator[str]:
    """Yield the command with a table of --join, or columns of it, of similar names."""
    from wdsflow.joining.join_fixes import nearest_options
    from wdsflow.stages.caption_sources import parse_captions

    yield from error.advice
    captions = None
    if typed.name == "validate" and "caption" in typed.given:
        captions = parse_captions(typed.given["caption"])
    sets = typed.given.get("join_set", ())
    changed = nearest_options(error, _join_on(typed), sets, captions)
    if changed:
        yield f"such as: {typed.command_with(**changed)}"


def advise_on_mismatch(error: "JoinMismatch", typed: Typed) -> Iterator[str]:
    """Yield the command with another join."""
    from wdsflow.joining.join_fixes import mismatch_fixes

    for fix in mismatch_fixes(error, _join_on(typed)):
        yield f"to {fix.action}: {typed.command_with(**fix.changed)}"


def _join_on(typed: Typed) -> str:
    """Return what samples are joined on."""
    return str(typed.given.get("join_on", "key"))


def refuse_empty_join(
    options: "JoinOptions", typed: Typed, captions: "Captions | None" = None
) -> None:
    """Refuse a table of --join without fields to set, and options of a join without a table.

    ``captions``: of samples; some may be columns of the table.
    """
    lonely = [name for name in _OF_A_JOIN if name in typed.given]
    if lonely and "join" not in typed.given:
        flags = enumeration("--" + name.replace("_", "-") for name in lonely)
        without = typed.command_with(**dict.fromkeys(lonely))
        refuse(f"{flags}: name the table with --join", f"without a table: {without}")
    has_captions = captions is not None and captions.joined_columns
    if options.join is not None and not (options.join_set or has_captions):
        problem = "the join lacks fields to set: name them with --join-set"
        refuse(problem, *columns_to_set(typed))


def refuse_missing_join(recipe: Path | None, typed: Typed) -> None:
    """Refuse the recipe of a run that joined a table, if no table is named.

    The recipe does not contain the table.
    """
    from wdsflow.joining.recorded_join import join_of
    from wdsflow.records.run_folder import recorded_run

    if recipe is None or "join" in typed.given:
        return
    join = join_of(recorded_run(recipe))
    if join:
        problem = f"the run of {recipe} joined a table: name it with --join"
        refuse(problem, f"the same one: {typed.command_with(**join)}")


def columns_to_set(typed: Typed) -> Iterator[str]:
    """Yield the command of a joined table with columns to set."""
    from wdsflow.joining.join_on import parse_on
    from wdsflow.joining.table_files import locate_table
    from wdsflow.table_files.errors import TableError

    try:
        columns = locate_table(typed.given["join"]).columns()
        on = parse_on(typed.given.get("join_on", "key")).column
    except (TableError, ValueError):
        return
    for column in [name for name in columns if name != on][:_SUGGESTED]:
        yield f"such as: {typed.command_with(join_set=[f'txt={column}'])}"


def advise_on_candidates(error: "WhichColumn", typed: Typed) -> Iterator[str]:
    """Yield the command with each of the columns that could be meant."""
    for column in error.columns[:_SUGGESTED]:
        yield f"such as: {typed.command_with(**{error.option: column})}"
    if error.option == "caption":
        yield f"for none: {typed.command_with(caption='')}"


def advise_on_tables_of_folder(error: "HoldsTables", typed: Typed) -> Iterator[str]:
    """Yield the command with the tables in place of their folder."""
    if error.tables:
        given = typed.given["tables"]
        if error.named not in given:
            # A pattern that matched the folder is not repeated: the command would be refused again.
            given = [error.named]
        tables: list[str] = []
        for table in given:
            tables += error.tables if table == error.named else [table]
        yield f"to pack {'it' if len(error.tables) == 1 else 'them'}: {typed.command_with(tables=tables)}"
    yield from error.advice
    yield "to pack the files by their names, without a table: move tables out of there"


def advise_on_pattern_name(error: "PatternName", typed: Typed) -> Iterator[str]:
    """Yield the command with an output folder whose name is no pattern."""
    out = error.instead if remote_url(error.instead) else unused_path(Path(error.instead))
    yield f"such as: {typed.command_with(out=out)}"
