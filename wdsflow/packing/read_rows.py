"""The first pass over all tables and folders: each row is planned as a sample, or left out with a reason."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import named
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.text.words import how_many

from .keys import key_from, numbered
from .layouts import TableLayout, TableRow, layout_of
from .local_files import LocalFiles
from .media_files import MediaFiles
from .pack_options import PackRequest, ShardLimit
from .pack_record import listing_of
from .pack_report import PackReport
from .pack_workers import MANY_ROWS
from .plan import PackPlan
from .remote_files import RemoteFiles
from .row_sources import Input, Table, copied
from .stored_bytes import StoredBytes
from .stored_rows import File, PlannedRow
from .unusable import Unusable
from .write_shard import PackJob

# Of the numbers in names, as in img2dataset.
_DIGITS = 5
# Characters; longer ones are no files, and are not kept.
_LONGEST_PATH = 4096


@dataclass
class Rows:
    """The first pass over all tables and folders.

    Args:
        inputs: tables and folders.
        limit: the size of a shard.
        request: the options.
        scratch: a folder for files of the run.
        when_many: called when many rows were read of files that another process can read, too.
    """

    inputs: Sequence[Input]
    limit: ShardLimit
    request: PackRequest
    scratch: Path
    when_many: Callable[[], object]
    layouts: list[str] = field(default_factory=list)
    files: list[MediaFiles] = field(default_factory=list)
    changed_keys: int = 0
    first_changed: str = ""

    def __post_init__(self) -> None:
        has_folders = any(source.kind in ("folder", "zip") for source in self.inputs)
        may_repeat = self.request.key is not None or has_folders
        self.plan = PackPlan(self.scratch, self.limit, self.request.shuffle, may_repeat)
        self.stored = StoredBytes(self.scratch / "bytes")

    def read(self) -> None:
        """Read all tables. Raises TableError, WhichColumn, OSError."""
        for number, source in enumerate(self.inputs):
            before = self.plan.rows
            if source.kind in ("folder", "zip"):
                self._read_folder(number, source)
            else:
                self._read_table(number, Table(source, self.scratch))
            if self.plan.rows == before:
                raise TableError(f"{source.named} has no rows")
        self.plan.order(self.request.key or "", [source.named for source in self.inputs])
        self.stored.flush()

    def jobs(self, folder: Path) -> list[PackJob]:
        """Return the shards to write."""
        bounds = self.plan.bounds()
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        files, jobs = tuple(self.files), []
        for number, (start, end) in enumerate(bounds):
            name = f"{number:0{digits}}.tar"
            jobs.append(
                PackJob(
                    self.plan.stored,
                    files,
                    self.stored,
                    start,
                    end,
                    folder / name,
                    listing_of(folder, name),
                )
            )
        return jobs

    def report(self) -> PackReport:
        """Return the report of what is known before shards are written."""
        tables = [
            (str(source.named), layout)
            for source, layout in zip(self.inputs, self.layouts, strict=True)
        ]
        left_out = self.plan.left_out
        return PackReport(
            rows=self.plan.rows,
            tables=tables,
            planned_out=left_out.counts.copy(),
            examples={reason: list(rows) for reason, rows in left_out.examples.items()},
            changed_keys=(self.changed_keys, self.first_changed),
        )

    def close(self) -> None:
        """Close all files."""
        self.plan.close()
        self.stored.close()
        for files in self.files:
            files.close()

    def _read_table(self, number: int, table: Table) -> None:
        request = self.request
        columns = table.columns()
        if not columns:
            raise TableError(f"{table.named} has no rows")
        layout = layout_of(
            columns,
            table.pictures(),
            table.named,
            image=request.image,
            caption=request.caption,
            token=request.image_token,
            text=table.text,
        )
        layout = replace(layout, has_bytes=table.kind == "parquet")
        if request.key is not None and columns.count(request.key) != 1:
            raise NoColumn(table.named, request.key, columns, table.text)
        self.layouts.append(str(layout))
        files = self._root(self.inputs[number])
        self.files.append(files)
        for row_number, row in enumerate(table.rows(), 1):
            self._count_row(files)
            try:
                planned = self._planned(number, row_number, row, layout, files)
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
            else:
                self.plan.add(planned)

    def _count_row(self, files: MediaFiles) -> None:
        self.plan.rows += 1
        if self.plan.rows == MANY_ROWS and files.travels:
            self.when_many()

    def _planned(
        self, number: int, row_number: int, row: TableRow, layout: TableLayout, files: MediaFiles
    ) -> PlannedRow:
        """Return what becomes of a row. Raises Unusable."""
        column = self.request.key
        key = numbered(self.plan.rows) if column is None else self._key(row_number, row, column)
        texts: list[tuple[str, bytes]] = []
        media = layout.files(row)
        caption = layout.caption_of(row)
        if caption is not None:
            texts.append(("txt", caption))
        if facts := layout.json(row):
            texts.append(("json", facts))
        planned: list[File] = []
        for file_column, file in media:
            try:
                ref = self.stored.add(file) if isinstance(file, bytes) else files.find(file)
            except Unusable as error:
                value = file if isinstance(file, str) and len(file) <= _LONGEST_PATH else ""
                raise Unusable(error.reason, error.detail, file_column, value) from None
            planned.append(("", file_column, ref))
        return PlannedRow(number, row_number, key, planned, texts)

    def _key(self, row_number: int, row: TableRow, column: str) -> str:
        value = row.get(column)
        key = key_from(value, column)
        if key != value and key != str(value):
            self.changed_keys += 1
            if not self.first_changed:
                self.first_changed = (
                    f"row {row_number:,}, column {column}: {value!r:.100} is {key!r:.100}"
                )
        return key

    def _read_folder(self, number: int, source: Input) -> None:
        from .folder_rows import FolderRows

        for column in ("image", "caption", "key"):
            if getattr(self.request, column) is not None:
                raise ValueError(
                    f"--{column} names a column of a table, and {source.named} has no table"
                )
        if self.request.image_token:
            raise ValueError(
                f"--image-token is for captions of a table, and {source.named} has no table"
            )
        files = self._root(source)
        folder = FolderRows(files, source.named)
        count = folder.ignored.total()
        ignored = (
            f"; {how_many(count, 'file')} ignored: {', '.join(sorted(folder.ignored))}"
            if count
            else ""
        )
        self.layouts.append(f"{folder.name}{ignored}")
        self.files.append(files)
        for row_number, group in enumerate(folder.groups, 1):
            self._count_row(files)
            try:
                planned: list[File] = [
                    (name, "", files.find(Shard.file(path))) for name, path in folder.fields(group)
                ]
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
            else:
                self.plan.add(
                    PlannedRow(number, row_number, folder.key(group), planned, folder.texts(group))
                )

    def _root(self, source: Input) -> MediaFiles:
        """Return where the files of a table are."""
        if source.kind == "zip":
            return _zip_files(source.named.path or copied(source.named, self.scratch, ".zip"))
        is_own = self.request.root is None or source.kind == "folder"
        root = source.folder if is_own else named(str(self.request.root))
        path = root.path
        if path is None:
            if self.limit.size is not None:
                raise ValueError(
                    f"--size needs the sizes of files, and those in {root} are not known: give --samples"
                )
            return RemoteFiles(root)
        if path.lower().endswith(".zip") and os.path.isfile(path):
            return _zip_files(path)
        if not os.path.isdir(path):
            raise TableError(
                f"there is no folder {root}; --root names the folder that holds all files"
            )
        return LocalFiles(path)


def _zip_files(path: str) -> MediaFiles:
    from .zip_files import ZipFiles

    return ZipFiles(path)
