"""The rows of a table in a file of any kind, in batches: Parquet, CSV, JSON lines, or the ledger of a run."""

import glob
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.shards.braces import expand_braces
from wdsflow.shards.numbered_names import natural
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import SourceError, place_of
from wdsflow.table_files.errors import NoColumn, NoTable, TableError
from wdsflow.table_files.parquet_file import ParquetFile
from wdsflow.table_files.text_rows import csv_cells, json_objects, kind_of

from .join_on import INTEGERS, JoinOn, join_query, join_text
from .table_values import BYTES, JSON, TEXT

# Modules of filtering are loaded for ledgers only: they take longer to load than all others
# together.
if TYPE_CHECKING:
    from wdsflow.filtering.run_folder import ShardRecord

# Of a batch.
_ROWS, _BYTES = 16_384, 8 << 20
# Mean bytes of a row: DuckDB sorts the rows that it reads.
_LARGE_ROWS = 2 << 10
# Bytes of a value that DuckDB reads: in a few rows these do no harm.
_LONGEST = 16 << 10
# Lines that are searched for names of columns.
_FIRST = 1000
# Between the shard and the key of a ledger's row.
_BETWEEN = "\0"

Columns = Sequence[str]
Batch = tuple[Sequence[str | None], Sequence[Sequence[object]]]
"""Values to join on, and the row of each: its other values."""


@dataclass
class TableFiles:
    """The files of a table, all of one kind: parquet, csv, tsv, jsonl or ledger. ``shards``: of a ledger, by its file."""

    kind: str
    files: list[Path]
    shards: dict[Path, "ShardRecord"] = field(default_factory=dict)

    def identity(self) -> list[object]:
        """Return an identity that changes with the table. Raises TableError, OSError."""
        try:
            return [[str(path), input_identity(Shard.file(str(path)))] for path in self.files]
        except SourceError as error:
            raise TableError(f"the table cannot be read: {error}") from None

    def columns(self) -> list[str]:
        """Return the names of the columns; of JSON lines those of the first 1,000. Raises TableError."""
        path = self.files[0]
        if self.kind in {"parquet", "ledger"}:
            return _parquet(path).names
        if self.kind == "jsonl":
            return list(
                dict.fromkeys(name for row, _ in islice(json_objects(path), _FIRST) for name in row)
            )
        return next((row for row, _ in csv_cells(path, self.kind)), [])

    def text(self, path: Path) -> str:
        """Return the path of a file of text whose first line has the names of columns; "" of another."""
        return str(path) if self.kind in {"csv", "tsv"} else ""

    def query(self, path: Path, on: JoinOn, columns: Columns, checked: Columns) -> str:
        """Return the query by which DuckDB reads a file of Parquet; "" if that could give other values.

        Its parameter is a number that is added to that of each row. Its columns are those of
        ``SampleJoin``: the number of the row, 0, the value to join on, kind and data of the others,
        and those of ``checked`` as they are compared. It fails if a value is long.
        """
        if self.kind not in {"parquet", "ledger"}:
            return ""
        file = _parquet(path)
        _require(path, file.names, [on.column, *columns, *checked])
        kinds = {name: str(kind) for name, kind in zip(file.names, file.types, strict=True)}
        value = join_query(file.cell(on.column), kinds[on.column], on.kind)
        cells = [_cell_query(file.cell(column), kinds[column]) for column in columns]
        if (
            not value
            or not file.numbers_rows
            or not all(cells)
            or any(kinds[column] != "VARCHAR" for column in checked)
            or any(group.size > _LARGE_ROWS * max(group.rows, 1) for group in file.groups())
        ):
            return ""
        if self.kind == "ledger" and on.kind == "key":
            value = f"'{(path.stem + _BETWEEN).replace(chr(39), 2 * chr(39))}' || {value}"
        checks = (join_query(file.cell(column), kinds[column], column) for column in checked)
        return f"SELECT {', '.join(('? + file_row, 0', value, *cells, *checks))} FROM {file.table(with_rows=True)}"

    def batches(self, path: Path, on: JoinOn, columns: Columns) -> Iterator[Batch]:
        """Yield the rows of a file. Raises TableError, with the place, if it is not a table or lacks a column."""
        if self.kind in {"parquet", "ledger"}:
            return self._of_parquet(path, on, columns)
        if self.kind == "jsonl":
            found = json_objects(path)
            return _in_batches(
                (join_text(row.get(on.column), on.kind), tuple(map(row.get, columns)), size)
                for row, size in found
            )
        return _of_csv(path, self.kind, on, columns)

    def scope(self, urls: Sequence[Shard]) -> list[str] | None:
        """Return the prefix of keys for each shard, if keys of the table are per shard, as in a ledger.

        A shard is that of the ledger with its url or path, or that was written next to the ledger,
        or otherwise the one of the same name. Raises TableError if several have that name, or if
        the shard is not the one that was scored; SourceError if it cannot be read.
        """
        if self.kind != "ledger":
            return None
        # Files of the ledger, without extension, by urls and paths of shards.
        known: dict[str, str] = {}
        # And by the names of shards.
        named: defaultdict[str, list[str]] = defaultdict(list)
        for path, record in self.shards.items():
            named[_name(record.url)].append(path.stem)
            known[_output_of(path, record)] = path.stem
            known |= {record.url: path.stem, place_of(Shard.stored(record.url)): path.stem}
        ledgers = {path.stem: path for path in self.shards}
        given = Counter(map(_name, urls))
        found = []
        for url in urls:
            stem = known.get(url, known.get(place_of(url), ""))
            if not stem and named[_name(url)]:
                if len(named[_name(url)]) > 1 or given[_name(url)] > 1:
                    raise TableError(
                        f"which shard of the ledger is {url}? Several are called {_name(url)}: measure it again"
                    )
                stem = named[_name(url)][0]
            if stem:
                self._refuse_other(url, ledgers[stem])
            found.append((stem or f"not in the ledger {url}") + _BETWEEN)
        return found

    def _refuse_other(self, url: Shard, path: Path) -> None:
        """Raise TableError if a shard is not the one that was scored, nor written by that run.

        If the ledger has hashes of images, these are compared instead: the shard may have been
        rewritten since.
        """
        from wdsflow.filtering.ledger.ledger_metadata import LedgerError, same_shard
        from wdsflow.filtering.recipe.recipe import recorded_recipe
        from wdsflow.filtering.run_folder import ShardRecord

        hashed = recorded_recipe(path.parents[1] / "run.json").get("hash_images")
        if place_of(url) == _output_of(path, self.shards[path]) or hashed:
            return
        now = ShardRecord(0, url, path.stem, "", input_identity(url))
        try:
            same_shard({"input": self.shards[path].input}, now, path)
        except LedgerError as error:
            raise TableError(str(error)) from None

    def _of_parquet(self, path: Path, on: JoinOn, columns: Columns) -> Iterator[Batch]:
        file = _parquet(path)
        _require(path, file.names, [on.column, *columns])
        before = path.stem + _BETWEEN if self.kind == "ledger" and on.kind == "key" else ""
        for batch in file.batches([on.column, *columns], file.rows_of(_BYTES, _ROWS)):
            texts = [join_text(row[0], on.kind) for row in batch]
            joins = [text if text is None or not before else before + text for text in texts]
            yield joins, [row[1:] for row in batch]


def find_table(given: str | Path) -> TableFiles:
    """Return the files of a table: one file, a folder or pattern of them, or a folder that filter or measure wrote.

    Raises TableError.
    """
    text = str(given)
    if not text:
        raise TableError("the table has no name: is a variable of the shell not set?")
    path = Path(text).expanduser()
    if (path / ".wdsflow" / "ledger").is_dir():
        return _ledger(path)
    if path.is_dir():
        found = [each for each in path.iterdir() if each.is_file() and kind_of(each)]
    elif path.exists():
        found = [path]
    else:
        found = [Path(each) for part in expand_braces(str(path)) for each in glob.glob(part)]
        if not found:
            there = path.parent.iterdir() if path.parent.is_dir() else ()
            raise NoTable(text, (str(each) for each in there if kind_of(each)))
    files = sorted(found, key=lambda each: natural(str(each)))
    kinds = {kind_of(each) for each in files}
    if len(kinds) != 1 or None in kinds:
        what = (
            f"{text} holds no table"
            if not files
            else f"{text}: the kind of {files[0].name} is not known"
        )
        what = what if len(kinds) < 2 else f"{text} holds tables of several kinds"
        raise TableError(
            f"{what}: tables end in .parquet, .csv, .tsv or .jsonl, or are folders of wdsflow measure"
        )
    return TableFiles(str(kinds.pop()), files)


def _ledger(folder: Path) -> TableFiles:
    from wdsflow.filtering.run_folder import Layout, records_in_order

    layout = Layout(folder)
    shards = {layout.ledger(record.name): record for record in records_in_order(layout)}
    if not shards:
        raise TableError(f"no shard of {folder} is finished yet: its ledger is empty")
    return TableFiles("ledger", list(shards), shards)


def _output_of(path: Path, record: "ShardRecord") -> str:
    """Return the path of the shard that a run wrote, by its ledger OUT/.wdsflow/ledger/0.parquet."""
    return os.path.realpath(path.parents[2] / record.name)


def _name(url: str) -> str:
    return output_names([url])[0]


def _cell_query(cell: str, kind_of_cell: str) -> str:
    """Return the SQL for kind and data of a type of DuckDB, which fails if a value is long; "" if unknown."""
    if kind_of_cell == "VARCHAR":
        kind, data = TEXT, f"encode({cell})"
    elif kind_of_cell == "BLOB":
        kind, data = BYTES, cell
    elif kind_of_cell in INTEGERS or kind_of_cell == "BOOLEAN":
        kind, data = JSON, f"encode({cell}::VARCHAR)"
    else:
        return ""
    return f"'{kind}', CASE WHEN octet_length({data}) > {_LONGEST} THEN error('a long value') ELSE {data} END"


def _require(path: Path, names: Sequence[str], wanted: Iterable[str], text: str = "") -> None:
    for column in wanted:
        if names.count(column) != 1:
            raise NoColumn(str(path), column, names, text)


def _parquet(path: Path) -> ParquetFile:
    try:
        return ParquetFile(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None


def _of_csv(path: Path, kind: str, on: JoinOn, columns: Columns) -> Iterator[Batch]:
    rows = csv_cells(path, kind)
    names = next(rows, ([], 0))[0]
    if not names:
        return
    _require(path, names, [on.column, *columns], str(path))
    key, places = names.index(on.column), [names.index(name) for name in columns]
    cells = (
        (join_text(row[key], on.kind), tuple(row[at] or None for at in places), size)
        for row, size in rows
    )
    yield from _in_batches(cells)


def _in_batches(rows: Iterable[tuple[str | None, tuple[object, ...], int]]) -> Iterator[Batch]:
    joins: list[str | None] = []
    values: list[tuple[object, ...]] = []
    total = 0
    for join, row, size in rows:
        joins.append(join)
        values.append(row)
        total += size
        if len(joins) == _ROWS or total > _BYTES:
            yield joins, values
            joins, values, total = [], [], 0
    if joins:
        yield joins, values
