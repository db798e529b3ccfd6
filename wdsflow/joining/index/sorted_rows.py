"""A table's rows in index order, sorted by DuckDB in parts that fit its memory limit."""

from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.joining.loaded_rows import LoadedRows
from wdsflow.joining.table_values import TEXT, StoredValue
from wdsflow.joining.value_lines import row_from_lines
from wdsflow.process_database import text_literal
from wdsflow.table_files.parquet_file import pattern_of

# Bytes of the lines that are sorted at a time. DuckDB sorts some times more than its memory on
# disk, but not any number of rows: it fails at 100 million captions.
_PART_BYTES = 512 << 20
# Of each line besides its values: numbers, and the lengths of values.
_LINE_BYTES = 40
# Parts that are written side by side, and bytes that all of them together have in memory.
_MOST_PARTS = 256
_WRITING_BYTES = 96 << 20
# Rows of a group in a file of a part.
_LEAST_GROUP, _LARGEST_GROUP = 2048, 65_536

# Of the lines of a row only the last has the value to join on.
_HASHED = """
WITH long_rows AS (
    SELECT row, value AS value_of_row FROM rows
    WHERE rest = 0 AND row IN (SELECT row FROM rows WHERE rest > 0)
)
SELECT md5_number_lower(coalesce(value, value_of_row)) AS hash, row, rest, value, {cells}
FROM rows LEFT JOIN long_rows USING (row) WHERE coalesce(value, value_of_row) IS NOT NULL
"""
# Equal parts of all hashes, in their order.
_DIVIDED = """
COPY (SELECT *, ((hash >> 48) * {parts}) >> 16 AS part FROM hashed)
TO {folder} (FORMAT parquet, PARTITION_BY (part), ROW_GROUP_SIZE {group}, COMPRESSION lz4)
"""
_SORTED = "SELECT hash, rest, value, {cells} FROM {source} ORDER BY hash, row, rest DESC"
# The first cell among the columns of a line.
_FIRST_CELL = 3


class SortedRow(NamedTuple):
    """Hash and value to join on of a row, and its other values."""

    hash: int
    value: str
    values: list[StoredValue]


def sorted_rows(loaded: LoadedRows, scratch: Path) -> Iterator[list[SortedRow]]:
    """Yield the rows with a value to join on, ordered by the hash of that value.

    Rows of equal hashes stay in the order of the table.

    They come some thousand at a time. The values of columns that are compared are texts.
    ``scratch`` exists. The table of ``loaded`` may be gone afterwards.
    """
    tables = loaded.tables
    columns = [*loaded.cells]
    selected = [*loaded.cells]
    for check in loaded.checks:
        columns += f"kind_{check}", f"data_{check}"
        selected += f"'{TEXT}' AS kind_{check}", f"encode({check}) AS data_{check}"
    # Several threads sort wide rows only in more memory.
    tables.run("SET threads = 1")
    tables.run(f"CREATE VIEW hashed AS {_HASHED.format(cells=', '.join(selected))}")
    # Kinds and data take turns.
    data_columns = columns[1::2]
    for source in _sources(loaded, scratch, data_columns):
        query = _SORTED.format(cells=", ".join(columns), source=source)
        yield from _rows(tables.batches(query))


def _sources(loaded: LoadedRows, scratch: Path, data_columns: Iterable[str]) -> Iterator[str]:
    """Yield what has the lines of each part, in their order."""
    tables = loaded.tables
    lines, line_size = _sizes(loaded, data_columns)
    parts = min(_MOST_PARTS, ceil(lines * line_size / _PART_BYTES))
    if parts < 2:
        yield "hashed"
        return
    group = int(_WRITING_BYTES / parts / line_size)
    folder = scratch / "parts"
    tables.run("SET preserve_insertion_order = false")
    tables.run(f"SET partitioned_write_flush_threshold = {_LARGEST_GROUP}")
    tables.run(
        _DIVIDED.format(
            parts=parts,
            folder=text_literal(str(folder)),
            group=max(_LEAST_GROUP, min(_LARGEST_GROUP, group)),
        )
    )
    tables.run("DROP VIEW hashed")
    tables.run("DROP TABLE rows")
    for part in range(parts):
        files = sorted((folder / f"part={part}").glob("*.parquet"))
        # A part of a few rows may have none.
        if not files:
            continue
        patterns = ", ".join(text_literal(pattern_of(file)) for file in files)
        yield f"read_parquet([{patterns}], hive_partitioning = false)"
        for file in files:
            file.unlink()


def _sizes(loaded: LoadedRows, data_columns: Iterable[str]) -> tuple[int, float]:
    """Return the number of lines, and the mean bytes of one."""
    sizes = [f"coalesce(sum(octet_length({column})), 0)" for column in data_columns]
    sizes.append("coalesce(sum(octet_length(encode(value))), 0)")
    query = f"SELECT count(*), {' + '.join(sizes)} FROM hashed"
    lines, size = loaded.tables.one(query)
    return lines, _LINE_BYTES + size / max(lines, 1)


def _rows(batches: Iterable[list[tuple[Any, ...]]]) -> Iterator[list[SortedRow]]:
    """Yield the rows of sorted lines."""
    lines: list[tuple[Any, ...]] = []
    for batch in batches:
        rows: list[SortedRow] = []
        for line in batch:
            lines.append(line)
            number, lines_after, value = line[:_FIRST_CELL]
            if not lines_after:
                rows.append(SortedRow(number, value, row_from_lines(lines, _FIRST_CELL)))
                lines = []
        yield rows
