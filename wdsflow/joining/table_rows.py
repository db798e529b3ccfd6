"""The rows of a file of a table, in batches that are bounded in rows and bytes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wdsflow.table_files.text_rows import csv_cells, json_objects

from .join_on import JoinOn
from .join_text import join_text
from .ledger_keys import key_prefix
from .table_files import TableFiles, open_parquet, require_columns

# Of a batch.
_ROWS = 16_384
_BYTES = 8 << 20

Columns = Sequence[str]
Row = tuple[str | None, tuple[object, ...], int]
"""The value to join on, the other values, and the bytes of the row in the file."""
Batch = tuple[Sequence[str | None], Sequence[Sequence[object]]]
"""Values to join on, and the row of each: its other values."""


def row_batches(table: TableFiles, path: Path, on: JoinOn, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a file.

    Raises TableError, with the position, if it is not a table; NoColumn.
    """
    if table.is_parquet:
        has_shard_keys = table.kind == "ledger" and on.kind == "key"
        return _parquet_batches(path, on, columns, key_prefix(path) if has_shard_keys else "")
    if table.kind == "jsonl":
        return _in_batches(_json_rows(path, on, columns))
    return _in_batches(_csv_rows(path, table.kind, on, columns))


def _parquet_batches(path: Path, on: JoinOn, columns: Columns, prefix: str) -> Iterator[Batch]:
    file = open_parquet(path)
    require_columns(path, file.names, [on.column, *columns])
    for batch in file.batches([on.column, *columns], file.rows_within(_BYTES, _ROWS)):
        join_values: list[str | None] = []
        for row in batch:
            text = join_text(row[0], on.kind)
            join_values.append(None if text is None else prefix + text)
        yield join_values, [row[1:] for row in batch]


def _json_rows(path: Path, on: JoinOn, columns: Columns) -> Iterator[Row]:
    for row, size in json_objects(path):
        values = tuple(row.get(column) for column in columns)
        yield join_text(row.get(on.column), on.kind), values, size


def _csv_rows(path: Path, kind: str, on: JoinOn, columns: Columns) -> Iterator[Row]:
    rows = csv_cells(path, kind)
    names, _ = next(rows, ([], 0))
    if not names:
        return
    require_columns(path, names, [on.column, *columns], str(path))
    join_index = names.index(on.column)
    indexes = [names.index(name) for name in columns]
    for row, size in rows:
        # An empty cell is a missing value.
        values = tuple(row[index] or None for index in indexes)
        yield join_text(row[join_index], on.kind), values, size


def _in_batches(rows: Iterable[Row]) -> Iterator[Batch]:
    join_values: list[str | None] = []
    values: list[tuple[object, ...]] = []
    total = 0
    for join_value, row, size in rows:
        join_values.append(join_value)
        values.append(row)
        total += size
        if len(join_values) == _ROWS or total > _BYTES:
            yield join_values, values
            join_values, values, total = [], [], 0
    if join_values:
        yield join_values, values
