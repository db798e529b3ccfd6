"""Parquet files, written by DuckDB: the same rows give the same bytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.process_database import call, text_literal
from wdsflow.shards.atomic import atomic_path, scratch_folder
from wdsflow.tables import Tables, name, system_error

from .parquet_columns import Column
from .parquet_file import connection

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows of a group, unless they are large. DuckDB writes multiples of 2,048.
_GROUP = 122_880


def write_parquet(path: Path, columns: Mapping[str, Column], metadata: Mapping[str, str]) -> None:
    """Write columns of one length in one step. Raises OSError.

    ``metadata``: key-value metadata of the file.
    """
    import duckdb

    rows = _Rows(columns)
    with atomic_path(path) as file, connection() as database:
        database.register("added", rows.arrays)
        try:
            call(
                database,
                database.execute,
                _copy(f"SELECT {rows.cells} FROM added", file, metadata, _GROUP),
            )
        except duckdb.Error as error:
            raise system_error(error, path) from error


class ParquetWriter:
    """Collects rows part by part, and writes them to a file in one step. Use as a context manager.

    Args:
        scratch: a folder for rows that do not fit into memory. It is new, in place of one that a
            killed run left, and removed.
        group: rows of a group, a multiple of 2,048.

    Raises TablesError, an OSError.
    """

    def __init__(self, scratch: Path, group: int = _GROUP) -> None:
        self._scratch = scratch_folder(scratch)
        self._scratch.__enter__()
        self._tables, self._group = Tables(scratch, threads=1), group
        self._begun = False

    def add(self, columns: Mapping[str, Column]) -> None:
        """Append rows; the columns are the same each time. Raises OSError."""
        rows = _Rows(columns)
        query = f"SELECT {rows.cells} FROM added"
        statement = f"INSERT INTO rows {query}" if self._begun else f"CREATE TABLE rows AS {query}"
        self._tables.run_over(rows.arrays, statement)
        self._begun = True

    def write(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the file. Raises OSError."""
        with atomic_path(path) as file:
            self._tables.run(_copy("SELECT * FROM rows", file, metadata, self._group))

    def __enter__(self) -> "ParquetWriter":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *error: object) -> None:
        self._tables.__exit__(*error)
        self._scratch.__exit__(None, None, None)


class _Rows:
    """The arrays of columns by names that are their numbers, and the SQL of the columns."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        cells: list[str] = []
        for title, column in columns.items():
            labels = [self._label(array) for array in column.arrays]
            cells.append(f"{column.sql.format(*labels)} AS {name(title)}")
        self.cells = ", ".join(cells)

    def _label(self, array: "NDArray[Any]") -> str:
        label = f"c{len(self.arrays)}"
        self.arrays[label] = array
        return label


def _copy(query: str, path: Path, metadata: Mapping[str, str], group: int) -> str:
    """Return the statement that writes the rows of a query to a file, in their order."""
    entries = ", ".join(f"{name(key)}: {text_literal(value)}" for key, value in metadata.items())
    options = [
        "FORMAT parquet",
        "COMPRESSION zstd",
        f"ROW_GROUP_SIZE {group}",
        "USE_TMP_FILE false",
    ]
    if entries:
        options.append(f"KV_METADATA {{{entries}}}")
    return f"COPY ({query}) TO {text_literal(str(path))} ({', '.join(options)})"
