"""The request of a graft, read and checked: its table, its join and the fields to set."""

import os
from dataclasses import dataclass

from wdsflow.joining.checked_columns import CHECKED_IMAGE, checked_columns
from wdsflow.joining.join_on import FieldToSet, JoinOn, parse_on, parse_set
from wdsflow.joining.join_options import Ambiguous
from wdsflow.joining.table_files import TableFiles, locate_table
from wdsflow.reshaping.options import GraftRequest
from wdsflow.table_files.errors import NoColumn


@dataclass(frozen=True)
class GraftOptions:
    """The request. ``table_name``: the table as it was named."""

    table: TableFiles
    table_name: str
    on: JoinOn
    fields: tuple[FieldToSet, ...]
    ambiguous: Ambiguous = "refuse"
    drop_unmatched: bool = False
    jobs: int = 1
    allow_pipe: bool = False

    def flags(self) -> dict[str, object]:
        """Return the options that determine the outcome, as on the command line."""
        return {
            "--from": self.table_name,
            "--on": str(self.on),
            "--set": list(map(str, self.fields)),
            "--ambiguous": self.ambiguous,
            "--drop-unmatched": self.drop_unmatched,
        }

    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns whose values are set, and those by which keys are checked.

        Raises NoColumn, TableError.
        """
        names = self.table.columns()
        columns = tuple(dict.fromkeys(field.column for field in self.fields))
        for column in (self.on.column, *columns):
            if column not in names:
                text = self.table.text_with_header(self.table.files[0])
                raise NoColumn(self.table_name, column, names, text)
        if self.on.kind != "key":
            return columns, ()
        checked = checked_columns(self.table)
        return columns, tuple(column for column in checked if column in names)


def options_of(request: GraftRequest) -> GraftOptions:
    """Return the options of a run. Raises ValueError, TableError."""
    if request.jobs < 1:
        raise ValueError("jobs must be at least 1")
    table_name = os.fspath(request.table)
    table = locate_table(table_name)
    return GraftOptions(
        table,
        table_name,
        _join_of(table, request.on),
        tuple(parse_set(request.fields)),
        request.ambiguous,
        request.drop_unmatched,
        request.jobs,
        request.allow_pipe,
    )


def _join_of(table: TableFiles, text: str) -> JoinOn:
    """Parse the value of the join; a ledger has its own name for the hash of images."""
    on = parse_on(text)
    if table.kind == "ledger" and on.kind == "xxh3" and "=" not in text:
        return JoinOn("xxh3", "", CHECKED_IMAGE)
    return on
