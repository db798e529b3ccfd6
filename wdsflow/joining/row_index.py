"""An index of the rows of a table on disk: rows by their value to join on, in any process, in little memory.

A folder with three files, in the order of a 64-bit hash of the values to join on:

* ``hashes``: the hash of each value, 8 bytes;
* ``offsets``: where its record begins, 8 bytes; one more at the end;
* ``records``: the value itself, whether several rows have it, and the values of the first of these rows:
  those that samples get, and those that are compared.

``index.json`` has the counts, and a digest of all records. Processes map the files into memory: the
pages that they read are shared, and the system drops them when it needs memory.
"""

import errno
import json
import mmap
import os
from bisect import bisect_left
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from struct import Struct
from typing import Any

from .table_values import KINDS, StoredValue

FILE = "index.json"
HASHES, OFFSETS, RECORDS = "hashes", "offsets", "records"
# Bytes of the value to join on, and whether several rows have it.
HEAD = Struct("<IB")
# Of each value: its kind, and its bytes; -1 for null.
CELL = "Bq"
# In place of a row: no row has the value; one has it, but other rows or samples have it as well, so
# that the sample does not get it.
NO_ROW, WITHHELD = -1, -3


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
        valued: rows with a value to join on.
        entries: different values to join on.
        repeated: those that several rows have.
        digest: of all values; the same for the same table.
        examples: the first values to join on.
        names: of all columns of the table.
        checked: columns that show whether keys still mean the samples of the table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        facts = _facts(folder)
        self.rows: int = facts["rows"]
        self.valued: int = facts["valued"]
        self.entries: int = facts["entries"]
        self.repeated: int = facts["repeated"]
        self.digest: str = facts["digest"]
        self.examples: list[str] = facts["examples"]
        self.names: list[str] = facts["names"]
        self.checked: tuple[str, ...] = tuple(facts["checked"])
        values = facts["columns"] + len(self.checked)
        self._head = Struct(f"<IB{CELL * values}")
        # Views of mapped files: an item is read when it is requested.
        hashes, offsets = _mapped(folder / HASHES), _mapped(folder / OFFSETS)
        self._records = _mapped(folder / RECORDS)
        if (len(hashes), len(offsets)) != (8 * self.entries, 8 * self.entries + 8):
            raise DamagedIndex(folder)
        self._hashes, self._offsets = hashes.cast("Q"), offsets.cast("Q")
        if self._offsets[-1] != len(self._records):
            raise DamagedIndex(folder)

    def __reduce__(self) -> tuple[type["RowIndex"], tuple[Path]]:
        return RowIndex, (self.folder,)

    def note_use(self) -> None:
        """Note that the index is used: those that are not are removed."""
        # A folder of another user is only read.
        with suppress(OSError):
            os.utime(self.folder / FILE)

    def find(self, value: str) -> int:
        """Return the number of the entry of a value to join on, NO_ROW if no row has it."""
        data = value.encode()
        number = hash_of(data)
        entry = bisect_left(self._hashes, number)
        # Different values may have the same hash.
        while entry < self.entries and self._hashes[entry] == number:
            start = self._offsets[entry]
            size, _ = HEAD.unpack_from(self._records, start)
            begin = start + self._head.size
            if self._records[begin : begin + size] == data:
                return entry
            entry += 1
        return NO_ROW

    def has_several_rows(self, entry: int) -> bool:
        """Return whether several rows have the value of an entry."""
        return bool(HEAD.unpack_from(self._records, self._offsets[entry])[1])

    def value(self, entry: int) -> str:
        """Return the value to join on of an entry."""
        start = self._offsets[entry]
        size, _ = HEAD.unpack_from(self._records, start)
        begin = start + self._head.size
        return bytes(self._records[begin : begin + size]).decode()

    def values(self, entry: int) -> list[StoredValue]:
        """Return the values of the first row of an entry, and then those of ``checked``, as texts."""
        start = self._offsets[entry]
        size, _, *cells = self._head.unpack_from(self._records, start)
        at = start + self._head.size + size
        values: list[StoredValue] = []
        for kind, length in zip(cells[::2], cells[1::2], strict=True):
            if length < 0:
                values.append((KINDS[kind], None))
                continue
            values.append((KINDS[kind], bytes(self._records[at : at + length])))
            at += length
        return values


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / FILE).read_bytes())
    except ValueError:
        raise DamagedIndex(folder) from None
    return facts


def _mapped(path: Path) -> memoryview:
    """Return the bytes of a file, mapped into memory."""
    with open(path, "rb") as file:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            return memoryview(b"")
        mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mapped, "madvise"):
        # Rows are read in the order of samples: what follows a row on the disk is of no use.
        mapped.madvise(mmap.MADV_RANDOM)
    return memoryview(mapped)
