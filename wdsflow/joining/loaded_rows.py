"""The rows of a table in DuckDB: the value to join on, and the values that samples get."""

import errno
from collections.abc import Sequence
from pathlib import Path

from wdsflow.tables import Tables, TablesError

from .join_on import JoinOn
from .join_text import join_text
from .table_files import TableFiles
from .table_query import table_query
from .table_rows import row_batches
from .table_values import KINDS, stored_value
from .value_lines import Lines

# Rows from which examples are shown.
_FIRST_ROWS = 100
# Bytes of the values in a line: DuckDB cannot sort wider rows in little memory.
_LINE_BYTES = 2 << 10
# Bytes of a value that is never split, however many there are in a line.
_UNSPLIT_BYTES = 128


class LoadedRows:
    """The table ``rows`` of a database. Use as a context manager.

    A row of the table is one line of ``rows``, or several if it has long values: the one with
    ``rest = 0`` has its value to join on.

    Args:
        folder: exists; for data that does not fit into memory.
        on: the value of the join.
        columns: those whose values samples get.
        checked: columns that show whether keys still mean the samples of the table.

    Attributes:
        tables: the database.
        rows: how many rows there are.
        rows_with_value: how many have a value to join on.
        cells: the columns of ``rows`` with the values that samples get: kind and data of each.
        checks: those with the values of ``checked``, as text.

    Raises TablesError if the folder is full.
    """

    def __init__(
        self, folder: Path, on: JoinOn, columns: Sequence[str], checked: Sequence[str] = ()
    ) -> None:
        self._on = on
        self._columns = list(columns)
        self._checked = list(checked)
        self.tables = Tables(folder)
        self.rows = 0
        self.rows_with_value = 0
        self.cells: list[str] = []
        definitions = ""
        for number in range(len(self._columns)):
            self.cells += [f"kind{number}", f"data{number}"]
            definitions += f", kind{number} kind, data{number} BLOB"
        self.checks = [f"check{number}" for number in range(len(self._checked))]
        checks = "".join(f", {check} VARCHAR" for check in self.checks)
        self.tables.run(f"CREATE TYPE kind AS ENUM {KINDS}")
        self.tables.run(
            f"CREATE TABLE rows (row BIGINT, rest INTEGER, value VARCHAR{definitions}{checks})"
        )

    def read(self, table: TableFiles) -> None:
        """Add the rows of a table. Raises TableError."""
        for path in table.files:
            query = table_query(table, path, self._on, self._columns, self._checked)
            if not query or not self._read_by_query(query):
                columns = [*self._columns, *self._checked]
                for values, rows in row_batches(table, path, self._on, columns):
                    self._add(values, rows)
            count = "SELECT count(*) FILTER (rest = 0), count(value) FROM rows"
            self.rows, self.rows_with_value = self.tables.one(count)

    def _read_by_query(self, query: str) -> bool:
        """Read a file with DuckDB; return whether it could. Otherwise nothing was added."""
        import duckdb

        try:
            self.tables.run(f"INSERT INTO rows {query}", self.rows)
        except duckdb.Error:
            return False
        except TablesError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def _add(self, values: Sequence[str | None], rows: Sequence[Sequence[object]]) -> None:
        columns = list(zip(*rows, strict=True))
        width = len(self._columns)
        kinds: list[list[str]] = []
        contents: list[list[bytes | None]] = []
        for column in columns[:width]:
            stored = [stored_value(cell) for cell in column]
            kinds.append([kind for kind, _ in stored])
            contents.append([data for _, data in stored])
        lines = Lines.from_columns(contents, max(_LINE_BYTES // width, _UNSPLIT_BYTES))
        cells: dict[str, list[str] | list[bytes | None] | list[str | None]] = {}
        for number in range(width):
            cells[f"kind{number}"] = lines.repeated(kinds[number])
            cells[f"data{number}"] = lines.parts(contents[number])
        for number, name in enumerate(self._checked):
            texts = [join_text(cell, name) for cell in columns[width + number]]
            cells[f"check{number}"] = lines.at_end(texts)
        self.tables.add(
            "rows",
            row=lines.rows + self.rows,
            rest=lines.rests,
            value=lines.at_end(values),
            **cells,
        )
        self.rows += len(rows)

    def values_of_rows(self) -> list[str]:
        """Return the join values of the first 100 rows."""
        query = "SELECT value FROM rows WHERE value IS NOT NULL AND row < ? ORDER BY row"
        return [without_shard_prefix(value) for (value,) in self.tables.rows(query, _FIRST_ROWS)]

    def __enter__(self) -> "LoadedRows":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.tables.__exit__()


def without_shard_prefix(value: str) -> str:
    """Return a value without the shard to which it is limited."""
    return value.rpartition("\0")[2]
