"""The files of a table: Parquet, CSV, JSON lines, or the ledger of a run."""

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from wdsflow.records.run_folder import Layout, ShardRecord, records_in_order
from wdsflow.shards.braces import expand_braces
from wdsflow.shards.numbered_names import natural_order
from wdsflow.shards.shard import Shard, unsigned
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import NoColumn, NoTable, TableError
from wdsflow.table_files.parquet_file import ParquetFile
from wdsflow.table_files.remote_copy import local_copy
from wdsflow.table_files.text_rows import csv_cells, json_objects, kind_of

# Lines that are searched for names of columns.
_SEARCHED_LINES = 1000
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass
class TableFiles:
    """The files of a table, all of one kind.

    Attributes:
        kind: parquet, csv, tsv, jsonl or ledger.
        files: in natural order.
        shards: of a ledger, the shard that each file is about.
        urls: of a remote table, its files.
        copies: of copies of a remote table, the url of each.
    """

    kind: str
    files: list[Path]
    shards: dict[Path, ShardRecord] = field(default_factory=dict)
    urls: list[Shard] = field(default_factory=list)
    copies: dict[Path, Shard] = field(default_factory=dict)

    @property
    def is_parquet(self) -> bool:
        """Whether the files are Parquet files."""
        return self.kind in {"parquet", "ledger"}

    def identity(self) -> list[object]:
        """Return an identity that changes with the table. Raises TableError, OSError."""
        try:
            files = self.urls or [Shard.file(str(path)) for path in self.files]
            return [[str(file), input_identity(file)] for file in files]
        except SourceError as error:
            raise TableError(f"the table cannot be read: {error}") from None

    def with_local_files(self, folder: Path) -> "TableFiles":
        """Return the table with local files; a remote table is copied into a folder.

        Raises TableError.
        """
        if not self.urls:
            return self
        copies = {Path(local_copy(url, folder, f".{self.kind}")): url for url in self.urls}
        return TableFiles(self.kind, list(copies), copies=copies)

    @contextmanager
    def naming_urls(self) -> Iterator[None]:
        """Make errors of the block name the url of a remote table, not its copy.

        The copy is removed afterwards, so advice that names it is dropped.
        """
        try:
            yield
        except TableError as error:
            for path, url in self.copies.items():
                error.args = (str(error).replace(str(path), url),)
                error.advice = [line for line in error.advice if str(path) not in line]
            raise

    def columns(self) -> list[str]:
        """Return the names of the columns.

        For JSON lines, those of the first 1,000. Raises TableError.
        """
        path = self.files[0]
        if self.is_parquet:
            return open_parquet(path).names
        if self.kind == "jsonl":
            names: dict[str, None] = {}
            for row, _ in islice(json_objects(path), _SEARCHED_LINES):
                names.update(dict.fromkeys(row))
            return list(names)
        first_row, _ = next(csv_cells(path, self.kind), ([], 0))
        return first_row

    def text_with_header(self, path: Path) -> str:
        """Return the path of a CSV or TSV file, "" for other kinds.

        The first line of such a file has the names of the columns.
        """
        return str(path) if self.kind in {"csv", "tsv"} else ""


def locate_table(given: str | Path) -> TableFiles:
    """Return the files of a table.

    A table is one file, a folder or pattern of files, or a folder that filter or measure wrote.

    Raises TableError.
    """
    text = str(given)
    if not text:
        raise TableError("the table has no name: is a variable of the shell not set?")
    path = Path(text).expanduser()
    if (path / ".wdsflow" / "ledger").is_dir():
        return _ledger(path)
    if path.is_dir():
        files = [file for file in path.iterdir() if file.is_file() and kind_of(file)]
    elif path.exists():
        files = [path]
    else:
        files = _matching_files(path, text)
    files.sort(key=lambda file: natural_order(str(file)))
    return TableFiles(_kind_of_all(files, text), files)


def locate_any_table(given: str | Path) -> TableFiles:
    """Return the files of a table, which may be remote.

    Local tables are located by ``locate_table``. Raises TableError.
    """
    text = str(given)
    if not URL.match(text) or Path(text).exists():
        return locate_table(given)
    urls = [Shard.url(url) for url in expand_braces(text)]
    names = [Path(unsigned(url).rpartition("/")[2]) for url in urls]
    return TableFiles(_kind_of_all(names, text), [], urls=urls)


def open_parquet(path: Path) -> ParquetFile:
    """Open a Parquet file. Raises TableError."""
    try:
        return ParquetFile(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None


def require_columns(
    path: Path, names: Sequence[str], required: Iterable[str], text: str = ""
) -> None:
    """Raise NoColumn if a file does not have each of the required columns once."""
    for column in required:
        if names.count(column) != 1:
            raise NoColumn(str(path), column, names, text)


def _matching_files(path: Path, text: str) -> list[Path]:
    """Return the files that match a pattern. Raises NoTable if none does."""
    files: list[Path] = []
    for pattern in expand_braces(str(path)):
        files += [Path(match) for match in glob.glob(pattern)]
    if not files:
        neighbours = path.parent.iterdir() if path.parent.is_dir() else ()
        raise NoTable(text, (str(file) for file in neighbours if kind_of(file)))
    return files


def _kind_of_all(files: Sequence[Path], text: str) -> str:
    """Return the kind of all files. Raises TableError if they have none, or several."""
    kinds = {kind_of(file) for file in files}
    if not files:
        problem = f"{text} holds no table"
    elif len(kinds) > 1:
        problem = f"{text} holds tables of several kinds"
    elif None in kinds:
        problem = f"{text}: the kind of {files[0].name} is not known"
    else:
        return str(kinds.pop())
    raise TableError(
        f"{problem}: tables end in .parquet, .csv, .tsv or .jsonl, or are folders of wdsflow measure"
    )


def _ledger(folder: Path) -> TableFiles:
    layout = Layout(folder)
    shards = {layout.ledger(record.name): record for record in records_in_order(layout)}
    if not shards:
        raise TableError(f"no shard of {folder} is finished yet: its ledger is empty")
    return TableFiles("ledger", list(shards), shards)
