"""The rows of a table in one file: JSON lines, a JSON array, CSV or Parquet.

The file is local or in an object store.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.table_files.parquet_file import ParquetFile
from wdsflow.table_files.parquet_values import DuckType
from wdsflow.table_files.remote_copy import local_copy
from wdsflow.table_files.text_rows import array_objects, csv_cells, json_objects

from .inputs import Input

# Rows of JSON that are searched for names of columns.
_FIRST_ROWS = 1000
# Bytes of cells, and rows, that are in memory at once.
_BATCH = 8 << 20
_BATCH_ROWS = 1024
# Bytes by which the kind of a text is recognised.
_HEAD = 1 << 16
_TEXTS = ("csv", "tsv")


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
            self._path = Shard.file(local_copy(self._path, scratch, ".parquet"))

    @property
    def text_file(self) -> str:
        """The file, if the first line of it names the columns; otherwise ""."""
        return self.named if self.kind in _TEXTS else ""

    def columns(self) -> list[str]:
        """Return the names of columns.

        For JSON, those of the first 1,000 rows. Raises TableError, NoColumn.
        """
        if self.kind == "parquet":
            return self._require_unique(self._parquet().names)
        if self.kind in _TEXTS:
            names, _ = next(csv_cells(self._path, self.kind), ([], 0))
            return self._require_unique(names)
        # A dict keeps the order.
        names_seen: dict[str, None] = {}
        for row in islice(self.rows(), _FIRST_ROWS):
            names_seen.update(dict.fromkeys(row))
        return list(names_seen)

    def bytes_columns(self) -> list[str]:
        """Return the columns that hold the bytes of files; none of a table of text."""
        if self.kind != "parquet":
            return []
        file = self._parquet()
        kinds = zip(file.names, file.types, strict=True)
        return [name for name, kind in kinds if _holds_bytes(kind)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows. Raises TableError, with the line, where the file is no table."""
        if self.kind == "parquet":
            yield from self._parquet_rows()
        elif self.kind == "array":
            yield from array_objects(self._path)
        elif self.kind == "jsonl":
            yield from (row for row, _line in json_objects(self._path))
        else:
            yield from self._text_rows()

    def _require_unique(self, names: list[str]) -> list[str]:
        """Return the names if all are different.

        Raises NoColumn if two are the same, because a row would lose one of the values.
        """
        for name, count in Counter(names).items():
            if count == 1:
                continue
            if name.strip():
                raise NoColumn(self.named, name, names, self.text_file)
            raise TableError(
                f"{self.named} has {count} columns without a name: give each a name of its own"
            )
        return names

    def _text_rows(self) -> Iterator[dict[str, Any]]:
        lines = csv_cells(self._path, self.kind)
        names, _line = next(lines, ([], 0))
        for cells, _line in lines:
            yield {name: cell or None for name, cell in zip(names, cells, strict=True)}

    def _parquet_rows(self) -> Iterator[dict[str, Any]]:
        file = self._parquet()
        size = file.rows_within(_BATCH, _BATCH_ROWS)
        for batch in file.batches(file.names, size):
            for cells in batch:
                yield dict(zip(file.names, cells, strict=True))

    def _parquet(self) -> ParquetFile:
        try:
            return ParquetFile(self._path, self.named)
        except OSError as error:
            raise TableError(f"{self.named} cannot be read: {error.strerror or error}") from None


def starts_with_bracket(first: bytes) -> bool:
    """Return whether JSON is an array by its first bytes."""
    return first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _has_tabs(path: Shard) -> bool:
    """Return whether tabs separate the column names in the first line.

    OpenCLIP uses tabs in .csv files, too.
    """
    line = _first_bytes(path).partition(b"\n")[0]
    return b"\t" in line and b"," not in line


def _first_bytes(path: Shard) -> bytes:
    try:
        with open_source(path) as source:
            return source.read_at(0, _HEAD)
    except SourceError as error:
        raise TableError(f"{path} cannot be read: {error}") from None


def _holds_bytes(kind: DuckType) -> bool:
    """Return whether a column holds file contents.

    These are bytes, lists of bytes, or what ``datasets`` writes for images.
    """
    if kind.id == "list":
        return _holds_bytes(dict(kind.children)["child"])
    if kind.id == "struct":
        return {name for name, _ in kind.children} == {"bytes", "path"}
    return kind.id == "blob"
