"""Writes the index of the rows of a table, sorted by DuckDB within bounded memory."""

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from wdsflow.joining.checked_columns import checked_columns
from wdsflow.joining.join_on import JoinOn
from wdsflow.joining.loaded_rows import LoadedRows
from wdsflow.joining.table_files import TableFiles
from wdsflow.joining.table_values import KINDS, StoredValue
from wdsflow.table_files.errors import NoColumn, TableError

from .row_index import BLOCK, BLOCKS, CELL, FILE, HASHES, OFFSETS, RECORDS
from .sorted_rows import SortedRow, sorted_rows

if TYPE_CHECKING:
    from xxhash import xxh3_128

# Values to join on that messages show.
_EXAMPLES = 3
_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

_Entry = tuple[int, bytes, bool, list[StoredValue]]
"""Hash and value to join on, whether several rows have it, and the values of the first of them."""


def write_row_index(
    target: Path, table: TableFiles, name: str, on: JoinOn, columns: Sequence[str], scratch: Path
) -> None:
    """Write the index of a table into a new folder.

    ``scratch``: an existing folder for data that does not fit into memory.

    ``name``: the table as the user named it. Raises TableError if the table cannot be read, or
    changes meanwhile; NoColumn; OSError if the disk is full.
    """
    identity = table.identity()
    local = table.with_local_files(scratch)
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
                "valued": loaded.rows_with_value,
                "examples": loaded.values_of_rows()[:_EXAMPLES],
            }
            rows = sorted_rows(loaded, scratch)
            written = _write_files(target, rows, len(columns) + len(checked))
            facts |= written._asdict()
        with open(target / FILE, "xb") as file:
            file.write(json.dumps(facts).encode())
            _sync(file)


class _Written(NamedTuple):
    """Contents of an index: entries, entries with several rows, and a digest of its records."""

    entries: int
    repeated: int
    digest: str


def _write_files(target: Path, rows: Iterable[list[SortedRow]], values: int) -> _Written:
    """Write hashes, offsets and records, each of so many values."""
    from xxhash import xxh3_128

    digest = xxh3_128()
    head = Struct(f"<IB{CELL * values}")
    at = count = repeated = 0
    with (
        open(target / HASHES, "xb") as hashes,
        open(target / OFFSETS, "xb") as offsets,
        open(target / RECORDS, "xb") as records,
    ):
        for entries in _entries(rows):
            at = _write_entries(entries, head, at, (hashes, offsets, records), digest)
            count += len(entries)
            repeated += sum(has_several for _, _, has_several, _ in entries)
        array("Q", [at]).tofile(offsets)
        for file in (hashes, offsets, records):
            _sync(file)
    _write_blocks(target)
    return _Written(count, repeated, digest.hexdigest())


def _write_entries(
    entries: Iterable[_Entry],
    head: Struct,
    at: int,
    files: tuple[BinaryIO, BinaryIO, BinaryIO],
    digest: "xxh3_128",
) -> int:
    """Write some entries, and return the offset of the record after them.

    ``at``: the offset of the first of their records.
    """
    hashes, offsets = array("Q"), array("Q")
    parts: list[bytes] = []
    for number, key, has_several, values in entries:
        cells: list[int] = []
        contents = [key]
        for kind, data in values:
            cells += _KIND_NUMBERS[kind], -1 if data is None else len(data)
            if data is not None:
                contents.append(data)
        record = b"".join((head.pack(len(key), has_several, *cells), *contents))
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


def _entries(batches: Iterable[list[SortedRow]]) -> Iterator[list[_Entry]]:
    """Yield the entries of sorted rows, some thousand at a time."""
    # By the values to join on that have this hash: hardly ever more than one.
    same_hash: dict[str, _Entry] = {}
    number = -1
    for rows in batches:
        entries: list[_Entry] = []
        for next_number, value, values in rows:
            if next_number != number:
                entries += sorted(same_hash.values())
                same_hash = {}
                number = next_number
            first = same_hash.get(value)
            if first is None:
                same_hash[value] = number, value.encode(), False, values
            else:
                # Of a table in which all rows have one value, only the first of them is kept.
                same_hash[value] = number, first[1], True, first[3]
        yield entries
    yield sorted(same_hash.values())


def _write_blocks(target: Path) -> None:
    """Write the first hash of each block of hashes."""
    blocks = array("Q")
    with open(target / HASHES, "rb") as hashes:
        while block := hashes.read(8 * BLOCK):
            blocks.frombytes(block[:8])
    with open(target / BLOCKS, "xb") as file:
        blocks.tofile(file)
        _sync(file)


def _sync(file: BinaryIO) -> None:
    """Write a file to the disk."""
    file.flush()
    os.fsync(file.fileno())
