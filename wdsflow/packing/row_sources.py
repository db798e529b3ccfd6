"""The rows of a table in one file: JSON lines, a JSON array, CSV or Parquet, here or in an object store."""

import glob
import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from wdsflow.shards.braces import expand_braces
from wdsflow.shards.numbered_names import natural
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError, local_path
from wdsflow.shards.source.opening import open_source, unpack
from wdsflow.table_files.errors import NoColumn, NoTable, TableError
from wdsflow.table_files.parquet_file import ParquetFile
from wdsflow.table_files.parquet_values import DuckType
from wdsflow.table_files.text_rows import (
    array_objects,
    csv_cells,
    json_objects,
    kind_of,
    unpacked_name,
)

# Rows that are searched for names of columns.
_FIRST = 1000
# Bytes of cells that are in memory at once.
_BATCH = 8 << 20
_MOST_ROWS = 1024
# Tables of a folder of images, as ``datasets`` looks for them.
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")


@dataclass(frozen=True)
class Input:
    """A table or a folder: where it is, and what it is (jsonl, json, csv, tsv, parquet, zip, folder)."""

    named: Shard
    kind: str

    @property
    def folder(self) -> Shard:
        """The folder of a table, its own of a folder."""
        if self.kind == "folder":
            return self.named
        if self.named.path is None:
            return Shard.url(posixpath.dirname(self.named.exact))
        return Shard.file(os.path.dirname(os.path.abspath(self.named.path)))

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return self.named.path is None


def inputs_of(tables: Sequence[str]) -> list[Input]:
    """Return the tables and folders that names and patterns stand for, in order. Raises TableError."""
    inputs = [source for named in tables for source in _expanded(named)]
    if not inputs:
        raise TableError("no table is named")
    return inputs


def _expanded(named: str) -> list[Input]:
    """Return the inputs of a name, a pattern with braces, or a glob of local files. Raises TableError."""
    if not named:
        raise TableError("the table has no name: is a variable of the shell not set?")
    path = local_path(named)
    if path is not None and _exists(named, path):
        return [_input(path)]
    parts = expand_braces(named)
    if path is None:
        return [Input(Shard.url(part), table_of(part) or "folder") for part in parts]
    matches = [
        match
        for part in parts
        for match in sorted(glob.glob(os.path.expanduser(part)), key=natural)
    ]
    if not matches:
        folder = os.path.dirname(path)
        raise NoTable(named, [os.path.join(folder, name) for name in _listed(folder or ".")])
    return [_input(match) for match in matches]


def _exists(named: str, path: str) -> bool:
    """Return whether a file or folder exists. Raises TableError if its folder cannot be read."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise TableError(f"{named} cannot be read: {error.strerror}") from None
    except (OSError, ValueError):
        return False
    return True


def _input(path: str) -> Input:
    if os.path.isdir(path):
        tables = (os.path.join(path, name) for name in METADATA)
        table = next(filter(os.path.isfile, tables), "")
        return (
            Input(Shard.file(table), table_of(table))
            if table
            else Input(Shard.file(path), "folder")
        )
    kind = table_of(path)
    if not kind:
        raise TableError(
            f"{path}: its kind is not known: tables end in .parquet, .csv, .tsv, .jsonl or .json;"
            " a folder or a .zip of files needs none"
        )
    return Input(Shard.file(path), kind)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def table_of(name: str) -> str:
    """Return the kind of a table, or zip, by its name; "" if it is none."""
    base = name.rpartition("/")[2]
    if base.lower().endswith(".zip"):
        return "zip"
    return "json" if unpacked_name(base).lower().endswith(".json") else kind_of(Path(base)) or ""


class Table:
    """A table: its columns, and its rows in order.

    Args:
        table: its name and kind.
        scratch: a folder for a copy of a remote Parquet file.

    Raises TableError.
    """

    def __init__(self, table: Input, scratch: Path) -> None:
        self.named = table.named
        self._path = table.named
        self.kind = table.kind
        if self.kind == "json":
            self.kind = "array" if starts_with_bracket(_first_bytes(self._path)) else "jsonl"
        elif self.kind == "csv" and _has_tabs(self._path):
            self.kind = "tsv"
        if self.kind == "parquet" and table.is_remote:
            self._path = Shard.file(copied(self._path, scratch, ".parquet"))

    @property
    def text(self) -> str:
        """The file, if the first line of it names the columns; otherwise ""."""
        return self.named if self.kind in ("csv", "tsv") else ""

    def columns(self) -> list[str]:
        """Return the names of columns; of JSON those of the first 1,000 rows. Raises TableError, NoColumn."""
        if self.kind == "parquet":
            return self._unique(self._parquet().names)
        if self.kind in ("csv", "tsv"):
            return self._unique(next((cells for cells, _ in csv_cells(self._path, self.kind)), []))
        return list(dict.fromkeys(name for row in islice(self.rows(), _FIRST) for name in row))

    def _unique(self, names: list[str]) -> list[str]:
        """Return the names. Raises NoColumn if two are the same: a row would lose the value of one of them."""
        for name, count in Counter(names).items():
            if count > 1 and name.strip():
                raise NoColumn(self.named, name, names, self.text)
            if count > 1:
                raise TableError(
                    f"{self.named} has {count} columns without a name: give each a name of its own"
                )
        return names

    def pictures(self) -> list[str]:
        """Return the columns that hold the bytes of files; none of a table of text."""
        if self.kind != "parquet":
            return []
        file = self._parquet()
        return [
            name for name, kind in zip(file.names, file.types, strict=True) if _holds_bytes(kind)
        ]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows. Raises TableError, with the line, where the file is no table."""
        if self.kind == "parquet":
            yield from self._of_parquet()
        elif self.kind == "array":
            yield from array_objects(self._path)
        elif self.kind == "jsonl":
            yield from (row for row, _ in json_objects(self._path))
        else:
            cells = csv_cells(self._path, self.kind)
            names = next(cells, ([], 0))[0]
            for row, _ in cells:
                yield {name: cell or None for name, cell in zip(names, row, strict=True)}

    def _parquet(self) -> ParquetFile:
        try:
            return ParquetFile(self._path, self.named)
        except OSError as error:
            raise TableError(f"{self.named} cannot be read: {error.strerror or error}") from None

    def _of_parquet(self) -> Iterator[dict[str, Any]]:
        file = self._parquet()
        for batch in file.batches(file.names, file.rows_of(_BATCH, _MOST_ROWS)):
            for row in batch:
                yield dict(zip(file.names, row, strict=True))


def starts_with_bracket(first: bytes) -> bool:
    """Return whether JSON is an array by its first bytes."""
    return first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _has_tabs(path: Shard) -> bool:
    """Return whether the names in the first line are separated by tabs, as OpenCLIP has them in .csv files, too."""
    line = _first_bytes(path).partition(b"\n")[0]
    return b"\t" in line and b"," not in line


def _first_bytes(path: Shard) -> bytes:
    try:
        with open_source(path) as source:
            return source.read_at(0, 1 << 16)
    except SourceError as error:
        raise TableError(f"{path} cannot be read: {error}") from None


def copied(url: Shard, scratch: Path, extension: str) -> str:
    """Return the path of a copy of a remote file, which has to be read in any order. Raises TableError."""
    path = scratch / f"copy-{len(list(scratch.iterdir()))}{extension}"
    try:
        with open_source(url) as source, open(path, "wb") as file:
            unpack(source, file.fileno(), scratch)
    except SourceError as error:
        raise TableError(f"{url} cannot be read: {error}") from None
    return str(path)


def _holds_bytes(kind: DuckType) -> bool:
    """Return whether a column has the bytes of files, lists of them, or what ``datasets`` writes for images."""
    if kind.id == "list":
        return _holds_bytes(dict(kind.children)["child"])
    if kind.id == "struct":
        return {name for name, _ in kind.children} == {"bytes", "path"}
    return kind.id == "blob"
