"""Parquet files, read by DuckDB: the names and types of columns, metadata, and rows."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow import process_database
from wdsflow.process_database import call, text_literal

from .errors import TableError
from .parquet_values import DuckType, converter, without_zones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

_SETTINGS = (
    # All values of an object array decide its type, not a sample of them.
    ("pandas_analyze_sample", "1000000000"),
    ("TimeZone", "'UTC'"),
    # Otherwise all of a column of a group is read at once,
    # and kept: of 6,000 images that is twice the memory.
    ("disable_parquet_prefetching", "true"),
    ("enable_external_file_cache", "false"),
)
# DuckDB's message for a valid file without columns, which it does not read.
_NO_COLUMN = "Need at least one non-root column"
# DuckDB turns decimals with more digits into floats.
_MOST_DIGITS = 38

_METADATA = "SELECT key, value FROM parquet_kv_metadata($1)"


class ParquetError(TableError):
    """A file that is not Parquet, or that cannot be read."""


class RowGroup(NamedTuple):
    """A group of rows: how many they are, and their bytes without compression."""

    rows: int
    size: int


class _Element(NamedTuple):
    """A column, or a part of a nested one, as the file names it."""

    name: str
    children: int
    digits: int | None


def connection() -> "DuckDBPyConnection":
    """Return a new connection to the database that this process uses for Parquet files."""
    return process_database.connection(_SETTINGS)


class ParquetFile:
    """A Parquet file on the disk. It is open only while rows are read.

    Args:
        path: of the file.
        named: what messages call it, if that is not its path.

    Attributes:
        names: of the columns, in order.
        types: DuckDB's type of each column.

    Raises FileNotFoundError and other OSErrors if it cannot be opened, ParquetError if it is not a
    Parquet file.
    """

    def __init__(self, path: str | Path, named: str = "") -> None:
        self.path, self.named = Path(path), named or str(path)
        with open(path, "rb"):
            self._pattern = pattern_of(path)
        query = "SELECT name, num_children, precision FROM parquet_schema($1)"
        elements = [
            _Element(name, children or 0, digits) for name, children, digits in self._fetch(query)
        ]
        inside: list[list[str]] = []
        self.names = _names(iter(elements[1:]), elements[0].children, inside)
        _refuse_changed(self.named, elements, inside)
        self.types: Sequence[DuckType] = self._describe()

    @property
    def rows(self) -> int:
        """The number of rows."""
        ((rows,),) = self._fetch("SELECT num_rows FROM parquet_file_metadata($1)")
        return int(rows)

    def groups(self) -> list[RowGroup]:
        """Return the groups of rows, in order."""
        query = (
            "SELECT any_value(row_group_num_rows), sum(total_uncompressed_size)::BIGINT FROM parquet_metadata($1) "
            "GROUP BY row_group_id ORDER BY row_group_id"
        )
        return [RowGroup(rows, size) for rows, size in self._fetch(query)]

    def rows_within(self, size: int, most: int) -> int:
        """Return how many rows fit into ``size`` bytes, uncompressed.

        At least 1 and at most ``most``.

        In the mean of each group of rows: in that of the file, small rows would hide large ones.
        """
        rows = most
        for group in self.groups():
            if group.rows:
                rows = min(rows, size * group.rows // max(group.size, 1))
        return max(rows, 1)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the values of some columns, ``size`` rows at a time. Raises ParquetError."""
        import duckdb

        numbers = [self.names.index(column) for column in columns]
        cells = [without_zones(self.types[number], f"c{number}") for number in numbers]
        convert = [converter(self.types[number]) for number in numbers]
        with connection() as cursor:
            try:
                call(cursor, cursor.execute, f"SELECT {', '.join(cells)} FROM {self.table_sql()}")
                while rows := call(cursor, cursor.fetchmany, size):
                    yield [_converted(row, convert) for row in rows] if any(convert) else rows
            except (duckdb.Error, OverflowError, ValueError) as error:
                raise ParquetError(f"{self.named} cannot be read: {first_line(error)}") from None

    def arrays(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> "dict[str, NDArray[Any]]":
        """Return the values of some columns as arrays, masked where they are null.

        See ``as_list``. Raises ParquetError.

        ``start``, ``stop``: the only rows; groups of others are not read.
        """
        import duckdb

        numbers = [self.names.index(column) for column in columns]
        last = (self.rows if stop is None else stop) - 1
        only_some = bool(start) or stop is not None
        query = f"SELECT {', '.join(f'c{number}' for number in numbers)} FROM {self.table_sql(with_rows=only_some)}"
        if only_some:
            query += f" WHERE file_row BETWEEN {start} AND {last}"
        with connection() as cursor:
            try:
                call(cursor, cursor.execute, query)
                arrays: Mapping[str, NDArray[Any]] = call(cursor, cursor.fetchnumpy)
            except duckdb.Error as error:
                raise ParquetError(f"{self.named} cannot be read: {first_line(error)}") from None
        return {
            column: arrays[f"c{number}"] for column, number in zip(columns, numbers, strict=True)
        }

    def column_sql(self, column: str) -> str:
        """Return the SQL of a column in ``table_sql``."""
        return f"c{self.names.index(column)}"

    @property
    def can_number_rows(self) -> bool:
        """Whether DuckDB can number the rows.

        It cannot if a column has the name that DuckDB uses for that.
        """
        return not any(name.lower() == "file_row_number" for name in self.names)

    def table_sql(self, *, with_rows: bool = False) -> str:
        """Return the SQL of the file as a table: see ``column_sql``.

        ``with_rows``: with a column ``file_row``, the number of a row, from 0, where
        ``can_number_rows``.
        """
        names = [f"c{number}" for number in range(len(self.names))]
        options = "hive_partitioning = false"
        if with_rows:
            names.append("file_row")
            options += ", file_row_number = true"
        return f"read_parquet({text_literal(self._pattern)}, {options}) AS rows({', '.join(names)})"

    def _describe(self) -> Sequence[DuckType]:
        import duckdb

        names = ", ".join(f"c{number}" for number in range(len(self.names)))
        if not names:
            return []
        with connection() as cursor:
            try:
                types: Sequence[DuckType] = cursor.sql(
                    f"SELECT {names} FROM {self.table_sql()}"
                ).types
            except duckdb.Error as error:
                raise ParquetError(f"{self.named} cannot be read: {first_line(error)}") from None
        return types

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        return _fetch(query, self.named, self._pattern)


def metadata_of(path: Path) -> dict[str, bytes]:
    """Return the key-value metadata of a Parquet file.

    Raises OSError, and ParquetError if the file is not a Parquet file.
    """
    with open(path, "rb"):
        pattern = pattern_of(path)
    return {
        bytes(key).decode(): bytes(value) for key, value in _fetch(_METADATA, str(path), pattern)
    }


def pattern_of(path: str | Path) -> str:
    """Return the pattern with which DuckDB opens only this file.

    DuckDB treats every path as a pattern.

    Raises ParquetError if there is none.

    >>> print(pattern_of("/a[1]/b.parquet"))
    /a[[]1]/b.parquet
    """
    absolute = os.path.abspath(path)
    problem = path_problem(absolute)
    if problem:
        raise ParquetError(f"{absolute} cannot be read: rename it, {problem}")
    return glob.escape(absolute)


def path_problem(path: str) -> str:
    """Return why DuckDB cannot open a file by its path; empty if it can.

    For example "its path is not UTF-8".
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its path is not UTF-8"
    # A backslash has two meanings in patterns, and DuckDB cannot express that of a character.
    if "\\" in path and glob.escape(path) != path:
        return "its path has a backslash and one of * ? ["
    return ""


def as_list(array: "NDArray[Any]") -> list[Any]:
    """Return the values of an array of ``ParquetFile.arrays``, None where they are null."""
    import numpy as np

    values: list[Any] = np.ma.getdata(array).tolist()
    mask = np.ma.getmaskarray(array)
    for number in np.flatnonzero(mask).tolist():
        values[number] = None
    first = next((value for value in values if value is not None), None)
    if type(first) is bytearray:
        values = [value if value is None else bytes(value) for value in values]
    return values


def first_line(error: BaseException) -> str:
    """Return the first line of an error of DuckDB."""
    return str(error).partition("\n")[0]


def _fetch(query: str, path: str, pattern: str) -> list[tuple[Any, ...]]:
    import duckdb

    with connection() as cursor:
        try:
            call(cursor, cursor.execute, query, [pattern])
            rows: list[tuple[Any, ...]] = call(cursor, cursor.fetchall)
        except duckdb.Error as error:
            if _NO_COLUMN in str(error):
                raise ParquetError(f"{path} has no columns") from None
            raise ParquetError(f"{path} is not a Parquet file: {first_line(error)}") from None
    return rows


def _names(elements: Iterator[_Element], count: int, inside: list[list[str]]) -> list[str]:
    """Return the names of the next elements.

    Each element is followed by its parts. The names of the parts are added to ``inside``.
    """
    names: list[str] = []
    for element in elements:
        names.append(element.name)
        if element.children:
            inside.append(_names(elements, element.children, inside))
        if len(names) == count:
            break
    return names


def _refuse_changed(
    path: str, elements: Sequence[_Element], inside: Sequence[Sequence[str]]
) -> None:
    """Raise ParquetError if DuckDB would silently change values.

    It would change long decimals, and names inside of columns.
    """
    for element in elements:
        if element.digits is not None and element.digits > _MOST_DIGITS:
            raise ParquetError(
                f"{path} cannot be read: {element.name} has decimals of more than {_MOST_DIGITS} digits"
            )
    for names in inside:
        if len({name.lower() for name in names}) < len(names):
            shown = ", ".join(names)
            raise ParquetError(
                f"{path} cannot be read: a column has parts whose names differ only in case: {shown}"
            )


def _converted(row: tuple[Any, ...], convert: Sequence[Any]) -> tuple[Any, ...]:
    values = []
    for value, function in zip(row, convert, strict=True):
        values.append(value if value is None or function is None else function(value))
    return tuple(values)
