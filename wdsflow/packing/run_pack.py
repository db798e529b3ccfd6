"""Shards from the rows of tables, or from the files of folders."""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.report import run_outputs
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.atomic import scratch_folder, writing
from wdsflow.shards.scratch import scratch
from wdsflow.shards.source.base import local_path
from wdsflow.shards.source.opening import open_source, unpack
from wdsflow.shards.thread_jobs import run_in_threads
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .keys import key_of, numbered
from .layouts import Layout, TableRow, layout_of
from .media_files import LocalFiles, MediaFiles, RemoteFiles, StoredBytes, ZipFiles
from .pack_options import PackRequest, ShardLimit
from .pack_report import PackedShard, PackReport, first_examples
from .plan import File, Plan, PlannedRow
from .row_sources import Input, Table, inputs_of
from .unusable import Unusable
from .write_shard import PackJob, look_at, made_from, write_shard

KIND = "pack"
_SCRATCH = "pack-scratch"
_LISTED = "pack-left-out.jsonl"
_DIGITS = 5  # of the numbers in names, as in img2dataset
_REASONS = {"rows": "the table or its files changed"}


@keywords(PackRequest)
def pack_shards(tables: str | Iterable[str], out: str | os.PathLike[str], request: PackRequest) -> PackReport:
    """Write shards from the rows of tables, or from the files of folders, with ``sizes.json`` and ``__len__`` next to them.

    Files are copied byte for byte; nothing is decoded. Memory does not grow with the number of rows. The same call resumes
    an interrupted run: finished shards are kept.

    Args:
        tables: one or several: .jsonl, .json, .csv, .tsv or .parquet, a folder or a .zip; local, or urls for fsspec.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        request: each is a keyword argument.

    Raises:
        TableError: a table cannot be read, or lacks a column; nothing is written.
        WhichColumn: it is not known which column holds images or captions.
        ValueError: arguments are invalid.
        OtherOptions: ``out`` holds shards that were packed with other options.
        Busy: another run works in ``out``.
        FileExistsError: ``out`` holds shards that no pack wrote.
        OSError: an output cannot be written, or a file changed while it was read. Finished shards are kept.
    """
    names = [tables] if isinstance(tables, str) else list(tables)
    with working_folder(out, dry_run=request.dry_run) as folder:
        limit = ShardLimit(request)
        if request.jobs < 1:
            raise ValueError("jobs must be at least 1")
        inputs = inputs_of(names)
        if request.dry_run:
            return _tried(inputs, limit, request)
        return _into(folder, names, inputs, limit, request).naming(out, folder)


def _tried(inputs: Sequence[Input], limit: ShardLimit, request: PackRequest) -> PackReport:
    """Read everything that decides what is written, and write nothing."""
    with scratch(KIND) as place, closing(Rows(inputs, limit, request, place)) as rows:
        rows.read()
        done: dict[int, PackedShard] = {}
        jobs = rows.jobs(place)
        run_in_threads(jobs, look_at, lambda job, shard: done.update({job.start: shard}), request.jobs, request.begin)
        report = rows.report()
        report.shards, report.dry_run = [done[job.start] for job in jobs], True
        first_examples(report.examples, report.left_out_rows())
    report.check()
    return report


def _into(
    folder: Path, names: list[str], inputs: Sequence[Input], limit: ShardLimit, request: PackRequest
) -> PackReport:
    flags = request.flags(names)
    _refuse_inside(folder, inputs)
    with ExitStack() as stack:
        record = stack.enter_context(OutputRecord(folder, KIND, "packed", PackedShard, _REASONS))
        if not request.restart:
            record.refuse_other(flags)
        record.refuse_company()
        place = folder / INSIDE / _SCRATCH
        stack.enter_context(scratch_folder(place))
        rows = stack.enter_context(closing(Rows(inputs, limit, request, place)))
        rows.read()
        jobs = rows.jobs(folder)
        report = rows.report()
        report.where, report.stale_removed = str(folder), record.stale
        if request.restart:
            record.clear()
        report.removed = _begin(record, flags, [job.target.name for job in jobs])
        report.shards = run_outputs(
            [(record, job) for job in jobs],
            write_shard,
            made_from,
            report,
            jobs=request.jobs,
            begin=request.begin,
            label=lambda job: str(job.target),
        )
        first_examples(report.examples, report.left_out_rows())
        report.listed = _list_left_out(folder / INSIDE / _LISTED, rows, report)
        record.finish()
    report.check()
    return report


def _refuse_inside(folder: Path, inputs: Sequence[Input]) -> None:
    """Raise ValueError if shards would be written into a folder that is packed."""
    real = os.path.realpath(folder)
    for each in inputs:
        if each.kind == "folder" and not each.is_remote and f"{real}/".startswith(f"{os.path.realpath(each.folder)}/"):
            raise ValueError(f"{folder} is in {each.named}, which is packed: choose a folder outside of it with -o")


def _begin(record: OutputRecord[PackedShard], flags: dict[str, object], names: list[str]) -> int:
    """Record the planned shards, and remove those of an earlier run of other rows, which readers would also read."""
    if not names and not record.outputs:
        return 0
    before = record.outputs
    record.begin(flags, names)
    removed = 0
    for name in before - set(names):
        if (record.folder / name).exists():
            (record.folder / name).unlink()
            removed += 1
    return removed


def _list_left_out(path: Path, rows: "Rows", report: PackReport) -> str:
    """Write all rows that were left out, a line each; return the path, "" if there are none."""
    if not report.left_out:
        path.unlink(missing_ok=True)
        return ""
    names = [named for named, _ in report.tables]
    with writing(path) as file, open(file, "wb", closefd=False) as stream:
        for left in chain(rows.plan.left_out.all(), report.left_out_rows()):
            facts = {"table": names[left.source], **left._asdict()}
            del facts["source"]
            stream.write(json.dumps(facts).encode() + b"\n")
    return str(path)


@dataclass
class Rows:
    """The first pass over all tables and folders.

    Args:
        inputs: tables and folders.
        limit: the size of a shard.
        request: the options.
        place: a folder for scratch files.
    """

    inputs: Sequence[Input]
    limit: ShardLimit
    request: PackRequest
    place: Path
    layouts: list[str] = field(default_factory=list)
    files: list[MediaFiles] = field(default_factory=list)
    changed_keys: int = 0
    first_changed: str = ""

    def __post_init__(self) -> None:
        is_unique = self.request.key is None and not any(each.kind in ("folder", "zip") for each in self.inputs)
        self.plan = Plan(self.place, self.limit, self.request.shuffle, not is_unique)
        self.stored = StoredBytes(self.place / "bytes")

    def read(self) -> None:
        """Read all tables. Raises TableError, WhichColumn, OSError."""
        for number, each in enumerate(self.inputs):
            before = self.plan.rows
            if each.kind in ("folder", "zip"):
                self._read_folder(number, each)
            else:
                self._read_table(number, Table(each, self.place))
            if self.plan.rows == before:
                raise TableError(f"{each.named} has no rows")
        self.plan.order(self.request.key or "")
        self.stored.flush()

    def jobs(self, folder: Path) -> list[PackJob]:
        """Return the shards to write."""
        bounds = self.plan.bounds()
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        return [
            PackJob(self.plan, tuple(self.files), self.stored, start, end, folder / f"{number:0{digits}}.tar")
            for number, (start, end) in enumerate(bounds)
        ]

    def report(self) -> PackReport:
        """Return the report of what is known before shards are written."""
        tables = [(each.named, layout) for each, layout in zip(self.inputs, self.layouts, strict=True)]
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
        for each in self.files:
            each.close()

    def _read_table(self, number: int, table: Table) -> None:
        asked = self.request
        columns = table.columns()
        if not columns:
            raise TableError(f"{table.named} has no rows")
        layout = layout_of(columns, table.pictures(), table.named, asked.image, asked.caption, table.text)
        if asked.key is not None:
            _need_column(table, columns, asked.key)
        self.layouts.append(str(layout))
        files = self._root(self.inputs[number])
        self.files.append(files)
        for row_number, row in enumerate(table.rows(), 1):
            self.plan.rows += 1
            try:
                planned = self._planned(number, row_number, row, layout, files)
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
            else:
                self.plan.add(planned)

    def _planned(self, number: int, row_number: int, row: TableRow, layout: Layout, files: MediaFiles) -> PlannedRow:
        """Return what becomes of a row. Raises Unusable."""
        key = self._key(row_number, row)
        texts: list[tuple[str, bytes]] = []
        found = layout.files(row)
        caption = layout.caption_of(row)
        if caption is not None:
            texts.append(("txt", caption))
        if facts := layout.json(row):
            texts.append(("json", facts))
        planned: list[File] = []
        for column, file in found:
            try:
                ref = self.stored.add(file) if isinstance(file, bytes) else files.find(file)
            except Unusable as error:
                raise Unusable(error.reason, error.detail, column) from None
            planned.append(("", column, ref))
        return PlannedRow(number, row_number, key, planned, texts)

    def _key(self, row_number: int, row: TableRow) -> str:
        if self.request.key is None:
            return numbered(self.plan.rows - 1)
        value = row.get(self.request.key)
        key = key_of(value, self.request.key)
        if key != value and key != str(value):
            self.changed_keys += 1
            if not self.first_changed:
                self.first_changed = f"row {row_number:,}, column {self.request.key}: {value!r:.100} is {key!r:.100}"
        return key

    def _read_folder(self, number: int, each: Input) -> None:
        from .folder_rows import FolderRows

        files = self._root(each)
        folder = FolderRows(files, each.named)
        ignored = folder.ignored.total()
        more = f"; {how_many(ignored, 'file')} ignored: {', '.join(sorted(folder.ignored))}" if ignored else ""
        self.layouts.append(f"{folder.name}{more}")
        self.files.append(files)
        for row_number, group in enumerate(folder.groups, 1):
            self.plan.rows += 1
            try:
                planned: list[File] = [(name, "", files.find(path)) for name, path in folder.fields(group)]
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
            else:
                self.plan.add(PlannedRow(number, row_number, folder.key(group), planned, folder.texts(group)))

    def _root(self, each: Input) -> MediaFiles:
        """Return where the files of a table are."""
        if each.kind == "zip":
            return ZipFiles(str(each.named) if not each.is_remote else self._copied(each.named))
        root = each.folder if self.request.root is None or each.kind == "folder" else self.request.root
        path = local_path(root)
        if path is None:
            if self.limit.size is not None:
                raise ValueError(f"--size needs the sizes of files, and those in {root} are not known: give --samples")
            return RemoteFiles(root)
        if path.lower().endswith(".zip") and os.path.isfile(path):
            return ZipFiles(path)
        if not os.path.isdir(path):
            raise TableError(f"there is no folder {root}; --root names the folder that holds all files")
        return LocalFiles(path)

    def _copied(self, url: str) -> str:
        path = self.place / f"copy-{len(self.files)}.zip"
        with open_source(url) as source, open(path, "wb") as file:
            unpack(source, file.fileno(), self.place)
        return str(path)


def _need_column(table: Table, columns: Sequence[str], column: str) -> None:
    if columns.count(column) != 1:
        raise NoColumn(table.named, column, columns, table.text)
