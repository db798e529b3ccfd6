"""The tables and folders that names and patterns stand for."""

import glob
import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wdsflow.shards.braces import expand_braces
from wdsflow.shards.numbered_names import natural_order
from wdsflow.shards.shard import Shard, unsigned
from wdsflow.shards.source.base import local_path
from wdsflow.table_files.errors import NoTable, TableError
from wdsflow.table_files.text_rows import kind_of, unpacked_name

# Tables of a folder of images, as ``datasets`` looks for them.
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")


@dataclass(frozen=True)
class Input:
    """A table or a folder: its path or url, and its kind.

    The kind is jsonl, json, csv, tsv, parquet, zip or folder.
    """

    named: Shard
    kind: str

    @property
    def folder(self) -> Shard:
        """The folder of a table, or the folder itself."""
        if self.kind == "folder":
            return self.named
        if self.named.path is None:
            return Shard.url(posixpath.dirname(self.named.exact))
        return Shard.file(os.path.dirname(os.path.abspath(self.named.path)))

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return self.named.path is None

    @property
    def has_table(self) -> bool:
        """Whether its rows are those of a table."""
        return self.kind not in ("folder", "zip")


def inputs_of(tables: Sequence[str]) -> list[Input]:
    """Return the tables and folders that names and patterns stand for, in order.

    Raises TableError.
    """
    inputs: list[Input] = []
    for name in tables:
        inputs += _expanded(name)
    if not inputs:
        raise TableError("no table is named")
    return inputs


def table_kind(name: str) -> str:
    """Return the kind of a table, or zip, by its name; "" if it is none.

    >>> table_kind("https://host/captions.csv?X-Amz-Signature=x"), table_kind("https://host/photos/")
    ('csv', '')
    """
    base = unsigned(name).rpartition("/")[2]
    if base.lower().endswith(".zip"):
        return "zip"
    # An array, or lines: its contents decide.
    if unpacked_name(base).lower().endswith(".json"):
        return "json"
    return kind_of(Path(base)) or ""


def _expanded(name: str) -> list[Input]:
    """Return the inputs of a name, a brace pattern, or a glob of local files.

    Raises TableError.
    """
    if not name:
        raise TableError("the table has no name: is a variable of the shell not set?")
    path = local_path(name)
    if path is not None and _exists(name, path):
        return [_input(path)]
    patterns = expand_braces(name)
    if path is None:
        return [Input(Shard.url(url), table_kind(url) or "folder") for url in patterns]
    matches: list[str] = []
    for pattern in patterns:
        matches += sorted(glob.glob(os.path.expanduser(pattern)), key=natural_order)
    if not matches:
        folder = os.path.dirname(path)
        neighbours = [os.path.join(folder, neighbour) for neighbour in _names_in(folder or ".")]
        raise NoTable(name, neighbours)
    return [_input(match) for match in matches]


def _exists(name: str, path: str) -> bool:
    """Return whether a file or folder exists. Raises TableError if its folder cannot be read."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}") from None
    except (OSError, ValueError):
        return False
    return True


def _input(path: str) -> Input:
    """Return the input at a path.

    For a folder of images with a metadata table, this is the table. Raises TableError.
    """
    if os.path.isdir(path):
        for name in METADATA:
            table = os.path.join(path, name)
            if os.path.isfile(table):
                return Input(Shard.file(table), table_kind(table))
        return Input(Shard.file(path), "folder")
    kind = table_kind(path)
    if not kind:
        raise TableError(
            f"{path}: its kind is not known: tables end in .parquet, .csv, .tsv, .jsonl or .json;"
            " a folder or a .zip of files needs none"
        )
    return Input(Shard.file(path), kind)


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
