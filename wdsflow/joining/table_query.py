"""The query with which DuckDB reads the rows of a Parquet file itself.

This is many times faster than reading batches.
"""

from collections.abc import Sequence
from pathlib import Path

from .join_on import JoinOn
from .join_text import INTEGERS, join_query
from .ledger_keys import key_prefix
from .table_files import TableFiles, open_parquet, require_columns
from .table_values import BYTES, JSON, TEXT

# Mean bytes of a row: DuckDB sorts the rows that it reads, and wider ones need much memory.
_LARGEST_MEAN_ROW = 2 << 10
# Bytes of a value: in a few rows these do no harm.
_LONGEST_VALUE = 16 << 10


def table_query(
    table: TableFiles, path: Path, on: JoinOn, columns: Sequence[str], checked: Sequence[str]
) -> str:
    """Return the query by which DuckDB reads a file of Parquet; "" if that could give other values.

    Its parameter is a number that is added to that of each row. Its columns are those of
    ``SampleJoin``: the number of the row, 0, the value to join on, kind and data of the others, and
    those of ``checked`` as they are compared. It fails if a value is long.

    Raises TableError if the file cannot be read, NoColumn if a column is missing.
    """
    if not table.is_parquet:
        return ""
    file = open_parquet(path)
    require_columns(path, file.names, [on.column, *columns, *checked])
    types = {name: str(kind) for name, kind in zip(file.names, file.types, strict=True)}
    join_value = join_query(file.column_sql(on.column), types[on.column], on.kind)
    if not join_value or not file.can_number_rows:
        return ""
    cells = [_cell_query(file.column_sql(column), types[column]) for column in columns]
    if not all(cells):
        return ""
    if any(types[column] != "VARCHAR" for column in checked):
        return ""
    if any(group.size > _LARGEST_MEAN_ROW * max(group.rows, 1) for group in file.groups()):
        return ""
    if table.kind == "ledger" and on.kind == "key":
        prefix = key_prefix(path).replace("'", "''")
        join_value = f"'{prefix}' || {join_value}"
    checks = [join_query(file.column_sql(column), types[column], column) for column in checked]
    selected = ["? + file_row", "0", join_value, *cells, *checks]
    return f"SELECT {', '.join(selected)} FROM {file.table_sql(with_rows=True)}"


def _cell_query(cell: str, cell_type: str) -> str:
    """Return the SQL for kind and data of a DuckDB type, "" for an unknown type.

    The query fails if a value is too long.
    """
    if cell_type == "VARCHAR":
        kind, data = TEXT, f"encode({cell})"
    elif cell_type == "BLOB":
        kind, data = BYTES, cell
    elif cell_type in INTEGERS or cell_type == "BOOLEAN":
        kind, data = JSON, f"encode({cell}::VARCHAR)"
    else:
        return ""
    is_long = f"octet_length({data}) > {_LONGEST_VALUE}"
    return f"'{kind}', CASE WHEN {is_long} THEN error('a long value') ELSE {data} END"
