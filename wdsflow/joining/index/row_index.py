"""An on-disk index of a table's rows by the value to join on.

Any process can read it, with little memory.

A folder with four files, in the order of a 64-bit hash of the values to join on:

* ``hashes``: the hash of each value, 8 bytes;
* ``blocks``: every 512th of these hashes, which a process holds in memory: 2 MB for 100 million
  values;
* ``offsets``: where the record of each value begins, 8 bytes; one more at the end;
* ``records``: the value itself, whether several rows have it, and the values of the first of these
  rows: those that samples get, and those that are compared.

``index.json`` has the counts, and a digest of all records. To find a row takes three reads of a few
KB. The system keeps what was read in its page cache, which all processes share.
"""

import errno
import json
import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from struct import Struct
from typing import Any

from wdsflow.joining.table_values import KINDS, StoredValue
from wdsflow.shards.source.base import read_fully

FILE = "index.json"
HASHES, BLOCKS, OFFSETS, RECORDS = "hashes", "blocks", "offsets", "records"
# Hashes of a block.
BLOCK = 512
# Bytes of the value to join on, and whether several rows have it.
HEAD = Struct("<IB")
# Of each value: its kind, and its bytes; -1 for null.
CELL = "Bq"
# In place of a row: no row has the value; one has it, but other rows or samples have it as well, so
# that the sample does not get it.
NO_ROW, WITHHELD = -1, -3
# Where a record begins and ends, as the system orders bytes.
_RANGE = Struct("=QQ")


def hash_of(value: bytes) -> int:
    """Return the hash of a value to join on, which DuckDB computes as ``md5_number_lower``."""
    return int.from_bytes(md5(value, usedforsecurity=False).digest()[8:], "little")


class DamagedIndex(OSError):
    """An index whose files do not fit each other."""

    def __init__(self, folder: Path) -> None:
        super().__init__(errno.EIO, "the index is damaged", str(folder))


class RowIndex:
    """The index in a folder. Picklable. Raises DamagedIndex, OSError if it cannot be read.

    Attributes:
        rows: of the table.
        rows_with_value: rows with a value to join on.
        entries: different values to join on.
        repeated_values: those that several rows have.
        digest: of all values; the same for the same table.
        examples: the first values to join on.
        names: of all columns of the table.
        checked: columns that show whether keys still mean the samples of the table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        facts = _facts(folder)
        self.rows: int = facts["rows"]
        self.rows_with_value: int = facts["valued"]
        self.entries: int = facts["entries"]
        self.repeated_values: int = facts["repeated"]
        self.digest: str = facts["digest"]
        self.examples: list[str] = facts["examples"]
        self.names: list[str] = facts["names"]
        self.checked: tuple[str, ...] = tuple(facts["checked"])
        values = facts["columns"] + len(self.checked)
        self._head = Struct(f"<IB{CELL * values}")
        self._hashes = _File(folder / HASHES)
        self._offsets = _File(folder / OFFSETS)
        self._records = _File(folder / RECORDS)
        self._blocks = array("Q")
        self._blocks.frombytes((folder / BLOCKS).read_bytes())
        if (self._hashes.size, self._offsets.size) != (8 * self.entries, 8 * self.entries + 8):
            raise DamagedIndex(folder)
        if len(self._blocks) != -(-self.entries // BLOCK):
            raise DamagedIndex(folder)
        if self._offset(self.entries) != self._records.size:
            raise DamagedIndex(folder)

    def __reduce__(self) -> tuple[type["RowIndex"], tuple[Path]]:
        return RowIndex, (self.folder,)

    def note_use(self) -> None:
        """Note that the index is used: those that are not are removed."""
        # A folder of another user is only read.
        with suppress(OSError):
            os.utime(self.folder / FILE)

    def entry_of(self, value: str) -> int:
        """Return the number of the entry of a value to join on, NO_ROW if no row has it."""
        data = value.encode()
        size = self._head.size + len(data)
        for entry in self._entries_of(hash_of(data)):
            start = self._records.read(self._offset(entry), size)
            key_size, _ = HEAD.unpack_from(start)
            if key_size == len(data) and start.endswith(data):
                return entry
        return NO_ROW

    def has_several_rows(self, entry: int) -> bool:
        """Return whether several rows have the value of an entry."""
        start = self._records.read(self._offset(entry), HEAD.size)
        return bool(HEAD.unpack(start)[1])

    def join_value(self, entry: int) -> str:
        """Return the value to join on of an entry."""
        record = self._record(entry)
        size, _ = HEAD.unpack_from(record)
        return record[self._head.size : self._head.size + size].decode()

    def row_values(self, entry: int) -> list[StoredValue]:
        """Return the values of the first row of an entry.

        The values of ``checked`` follow, as text.
        """
        record = self._record(entry)
        size, _, *cells = self._head.unpack_from(record)
        at = self._head.size + size
        values: list[StoredValue] = []
        for kind, length in zip(cells[::2], cells[1::2], strict=True):
            if length < 0:
                values.append((KINDS[kind], None))
                continue
            values.append((KINDS[kind], record[at : at + length]))
            at += length
        return values

    def _entries_of(self, number: int) -> Iterator[int]:
        """Yield the entries with a hash. Different values may have the same."""
        # Those with the first hash of a block may begin in the block before.
        first_block = max(bisect_left(self._blocks, number) - 1, 0)
        for block in range(first_block, len(self._blocks)):
            hashes = array("Q")
            hashes.frombytes(self._hashes.read(8 * BLOCK * block, 8 * BLOCK))
            for place in range(bisect_left(hashes, number), len(hashes)):
                if hashes[place] != number:
                    return
                yield block * BLOCK + place

    def _offset(self, entry: int) -> int:
        """Return where the record of an entry begins."""
        return int.from_bytes(self._offsets.read(8 * entry, 8), sys.byteorder)

    def _record(self, entry: int) -> bytes:
        start, end = _RANGE.unpack(self._offsets.read(8 * entry, _RANGE.size))
        return self._records.read(start, end - start)


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / FILE).read_bytes())
    except ValueError:
        raise DamagedIndex(folder) from None
    return facts


class _File:
    """A file that can be read at any position.

    It is closed when its last reference goes. Raises OSError.
    """

    _descriptor = -1

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes, fewer at the end."""
        return read_fully(self._descriptor, size, offset)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
