"""Writes the index of the rows of a table, sorted by DuckDB within bounded memory."""

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO

from wdsflow.table_files.errors import NoColumn, TableError

from .checked_columns import checked_columns
from .join_on import JoinOn
from .loaded_rows import LoadedRows
from .row_index import CELL, FILE, HASHES, OFFSETS, RECORDS
from .table_files import TableFiles
from .table_values import KINDS, TEXT, StoredValue
from .value_lines import row_of

if TYPE_CHECKING:
    from xxhash import xxh3_128

# The first row of each value to join on. Of the lines of a row only the last has the value.
_ENTRIES = """
CREATE TABLE entries AS
SELECT min(row) AS row, value, md5_number_lower(value) AS hash, count(*) > 1 AS repeated
FROM rows WHERE value IS NOT NULL GROUP BY value
"""
_SORTED = """
SELECT hash, entries.value, repeated, rest, {cells} FROM rows JOIN entries USING (row)
ORDER BY hash, entries.value, rest DESC
"""
# The first cell among the columns of a line.
_FIRST_CELL = 4
# Values to join on that messages show.
_EXAMPLES = 3
_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

_IndexRow = tuple[int, str, bool, list[StoredValue]]
"""Hash and value to join on, whether several rows have it, and the values of the first of them."""


def write_row_index(
    target: Path, table: TableFiles, name: str, on: JoinOn, columns: Sequence[str], scratch: Path
) -> None:
    """Write the index of a table into a new folder; ``scratch``, which exists, is for data beyond memory.

    ``name``: the table as the user named it. Raises TableError if the table cannot be read, or
    changes meanwhile; NoColumn; OSError if the disk is full.
    """
    identity = table.identity()
    local = table.on_this_machine(scratch)
    with local.naming_urls():
        names = local.columns()
        for column in (on.column, *columns):
            if column not in names:
                raise NoColumn(name, column, names, local.text_with_header(local.files[0]))
        checked: tuple[str, ...] = ()
        if on.kind == "key":
            checked = tuple(column for column in checked_columns(table) if column in names)
        target.mkdir()
        with LoadedRows(scratch, on, columns, checked) as loaded:
            loaded.read(local)
            if table.identity() != identity:
                raise TableError("the table changed while it was read")
            facts: dict[str, object] = {
                "columns": len(columns),
                "checked": checked,
                "names": names,
                "rows": loaded.rows,
                "valued": loaded.valued,
                "examples": loaded.values_of_rows()[:_EXAMPLES],
            }
            loaded.tables.run(_ENTRIES)
            count = "SELECT count(*), count(*) FILTER (repeated) FROM entries"
            facts["entries"], facts["repeated"] = loaded.tables.one(count)
            # Several threads sort wide rows only in more memory.
            loaded.tables.run("SET threads = 1")
            facts["digest"] = _write_files(target, loaded, len(columns) + len(checked))
        with open(target / FILE, "xb") as file:
            file.write(json.dumps(facts).encode())
            _sync(file)


def _write_files(target: Path, loaded: LoadedRows, values: int) -> str:
    """Write hashes, offsets and records, each of so many values; return a digest of the records."""
    from xxhash import xxh3_128

    digest = xxh3_128()
    head = Struct(f"<IB{CELL * values}")
    at = 0
    with (
        open(target / HASHES, "xb") as hashes,
        open(target / OFFSETS, "xb") as offsets,
        open(target / RECORDS, "xb") as records,
    ):
        for rows in _rows(loaded):
            at = _write_rows(rows, head, at, (hashes, offsets, records), digest)
        array("Q", [at]).tofile(offsets)
        for file in (hashes, offsets, records):
            _sync(file)
    return digest.hexdigest()


def _write_rows(
    rows: Iterable[_IndexRow],
    head: Struct,
    at: int,
    files: tuple[BinaryIO, BinaryIO, BinaryIO],
    digest: "xxh3_128",
) -> int:
    """Write some rows; return where the next record begins. ``at``: where the first of them does."""
    hashes, offsets = array("Q"), array("Q")
    parts: list[bytes] = []
    for number, value, repeated, values in rows:
        key = value.encode()
        cells: list[int] = []
        contents = [key]
        for kind, data in values:
            cells += _KIND_NUMBERS[kind], -1 if data is None else len(data)
            if data is not None:
                contents.append(data)
        record = b"".join((head.pack(len(key), repeated, *cells), *contents))
        hashes.append(number)
        offsets.append(at)
        parts.append(record)
        at += len(record)
    joined = b"".join(parts)
    digest.update(joined)
    hashes.tofile(files[0])
    offsets.tofile(files[1])
    files[2].write(joined)
    return at


def _rows(loaded: LoadedRows) -> Iterator[list[_IndexRow]]:
    """Yield the rows in the order of the index, some thousand at a time."""
    lines: list[tuple[Any, ...]] = []
    cells = [*loaded.cells]
    # The values of rows are compared as text.
    for check in loaded.checks:
        cells += f"'{TEXT}'", f"encode({check})"
    for batch in loaded.tables.batches(_SORTED.format(cells=", ".join(cells))):
        rows: list[_IndexRow] = []
        for line in batch:
            lines.append(line)
            lines_after = line[3]
            if not lines_after:
                rows.append((line[0], line[1], line[2], row_of(lines, _FIRST_CELL)))
                lines = []
        yield rows


def _sync(file: BinaryIO) -> None:
    """Write a file to the disk."""
    file.flush()
    os.fsync(file.fileno())
