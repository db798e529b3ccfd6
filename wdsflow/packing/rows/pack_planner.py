"""The first pass over all tables and folders.

Each row is planned as a sample, or left out with a reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import single_shard
from wdsflow.table_files.errors import TableError
from wdsflow.table_files.remote_copy import local_copy
from wdsflow.text.words import how_many

from ..files.media_files import MediaFiles
from ..files.root_files import files_below, files_in_zip
from ..files.stored_bytes import StoredBytes
from ..pack_job import PackJob
from ..pack_options import PackRequest, ShardLimit
from ..pack_record import listing_of
from ..pack_report import PackReport
from ..pack_workers import MANY_ROWS
from ..unusable import Unusable
from .inputs import Input
from .keys import numbered_key
from .plan import PackPlan
from .stored_rows import File, PlannedRow
from .table import Table
from .table_rows import TableRows, table_layout

if TYPE_CHECKING:
    from .folder_rows import FolderRows

# Of the numbers in names, as in img2dataset.
_DIGITS = 5


@dataclass
class PackPlanner:
    """The first pass over all tables and folders.

    Args:
        inputs: tables and folders.
        limit: the size of a shard.
        request: the options.
        scratch: a folder for files of the run.
        when_many: called when many rows were read of files that another process can read, too.

    Attributes:
        layouts: what is known of each input, for the report.
        files: the files of each input.
        changed_keys: keys that are not those of a table; ``first_changed`` is the first of them.
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
        has_folders = not all(source.has_table for source in self.inputs)
        may_repeat = self.request.key is not None or has_folders
        self.plan = PackPlan(self.scratch, self.limit, self.request.shuffle, may_repeat)
        self.stored = StoredBytes(self.scratch / "bytes")

    def read(self) -> None:
        """Read all tables. Raises TableError, WhichColumn, OSError."""
        for number, source in enumerate(self.inputs):
            rows_before = self.plan.rows
            if source.has_table:
                self._read_table(number, source)
            else:
                self._read_folder(number, source)
            if self.plan.rows == rows_before:
                raise TableError(f"{source.named} has no rows")
        self.plan.order_rows(self.request.key or "", [source.named for source in self.inputs])
        self.stored.flush()

    def jobs(self, folder: Path) -> list[PackJob]:
        """Return the shards to write."""
        bounds = self.plan.bounds()
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        files = tuple(self.files)
        jobs: list[PackJob] = []
        for number, (start, end) in enumerate(bounds):
            name = f"{number:0{digits}}.tar"
            job = PackJob(
                self.plan.stored,
                files,
                self.stored,
                start,
                end,
                target=folder / name,
                listing=listing_of(folder, name),
            )
            jobs.append(job)
        return jobs

    def report(self) -> PackReport:
        """Return the report of what is known before shards are written."""
        tables: list[tuple[str, str]] = []
        for source, layout in zip(self.inputs, self.layouts, strict=True):
            tables.append((str(source.named), layout))
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

    def _read_table(self, number: int, source: Input) -> None:
        table = Table(source, self.scratch)
        layout = table_layout(table, self.request)
        self.layouts.append(str(layout))
        files = self._files_of(source)
        self.files.append(files)
        rows = TableRows(number, layout, files, self.stored, self.request.key)
        for row_number, row in enumerate(table.rows(), 1):
            self._count_row(files)
            default_key = numbered_key(self.plan.rows)
            try:
                planned = rows.plan_row(row_number, row, default_key)
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
            else:
                self.plan.add(planned)
        self.changed_keys += rows.changed_keys
        self.first_changed = self.first_changed or rows.first_changed

    def _read_folder(self, number: int, source: Input) -> None:
        from .folder_rows import FolderRows

        self._refuse_options_of_tables(source)
        files = self._files_of(source)
        folder = FolderRows(files, source.named)
        self.layouts.append(f"{folder.name}{_ignored_text(folder)}")
        self.files.append(files)
        for row_number, group in enumerate(folder.groups, 1):
            self._count_row(files)
            try:
                group_files: list[File] = [
                    (name, "", files.find(Shard.file(path))) for name, path in folder.fields(group)
                ]
            except Unusable as error:
                self.plan.leave_out(number, row_number, error)
                continue
            key = folder.key(group)
            texts = folder.texts(group)
            self.plan.add(PlannedRow(number, row_number, key, group_files, texts))

    def _count_row(self, files: MediaFiles) -> None:
        self.plan.rows += 1
        if self.plan.rows == MANY_ROWS and files.travels:
            self.when_many()

    def _files_of(self, source: Input) -> MediaFiles:
        """Return the files that the rows of an input name. Raises TableError, ValueError."""
        if source.kind == "zip":
            return files_in_zip(source.named.path or local_copy(source.named, self.scratch, ".zip"))
        root = source.folder
        if self.request.root is not None and source.has_table:
            root = single_shard(str(self.request.root))
        return files_below(root, needs_sizes=self.limit.size is not None)

    def _refuse_options_of_tables(self, source: Input) -> None:
        """Raise ValueError if an option is about columns, which a folder does not have."""
        for column in ("image", "caption", "key"):
            if getattr(self.request, column) is not None:
                raise ValueError(
                    f"--{column} names a column of a table, and {source.named} has no table"
                )
        if self.request.image_token:
            raise ValueError(
                f"--image-token is for captions of a table, and {source.named} has no table"
            )


def _ignored_text(folder: "FolderRows") -> str:
    """Return how many files of a folder belong to no sample, and why; "" if there are none."""
    count = folder.ignored.total()
    if not count:
        return ""
    return f"; {how_many(count, 'file')} ignored: {', '.join(sorted(folder.ignored))}"
