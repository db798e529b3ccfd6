"""The rows of a shard with their files opened.

Rows are opened one after the other, or several ahead in an object store.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from ..files.media_files import FIRST, FileRef, Opened, is_stored
from ..left_out import LeftOut
from ..pack_job import PackJob
from ..rows.keys import fits_header
from ..rows.stored_rows import PlannedRow
from ..unusable import LONG_NAME, Unusable
from .sample_fields import FileFields, named_field, numbered_fields

# A row, and its files, or why it is left out.
OpenedRow: TypeAlias = tuple[PlannedRow, FileFields | LeftOut]
# Reads the first bytes of a file, or waits for them. Raises Unusable, SourceError.
OpenFile: TypeAlias = Callable[[], Opened]
# Files of a store that are requested at once, of several rows or of one.
_AHEAD = 32
# Bytes that are read of each file, also of a row with many.
_HEADER = 1 << 16


def opened_rows(job: PackJob) -> Generator[OpenedRow]:
    """Yield the rows of a shard, in order, with their files. Raises SourceError."""
    return _opened_ahead(job) if job.is_remote else _opened_one_by_one(job)


def _opened_one_by_one(job: PackJob) -> Generator[OpenedRow]:
    """Open the files of one row after the other."""
    for row in job.rows():
        yield row, _contents(job, row, _file_openers(job, row))


def _opened_ahead(job: PackJob) -> Generator[OpenedRow]:
    """Open the files of several rows at once, and yield the rows in order.

    The number of open files limits the bytes that wait.
    """
    pool = ThreadPoolExecutor(_AHEAD, "wdsflow-pack")
    waiting: deque[tuple[PlannedRow, list[Future[Opened]]]] = deque()
    requested = 0

    def first() -> OpenedRow:
        nonlocal requested
        row, files = waiting.popleft()
        requested -= len(files)
        return row, _contents(job, row, (file.result for file in files))

    try:
        for row in job.rows():
            while waiting and requested + len(row.files) > _AHEAD:
                yield first()
            files = [pool.submit(open_file) for open_file in _file_openers(job, row)]
            waiting.append((row, files))
            requested += len(files)
        while waiting:
            yield first()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _file_openers(job: PackJob, row: PlannedRow) -> Iterator[OpenFile]:
    """Yield what opens each file of a row. Together they read about as much as one file alone."""
    most = max(FIRST // max(len(row.files), 1), _HEADER)
    for _, _, ref in row.files:
        files = job.stored if is_stored(ref) else job.files[row.source]
        yield partial(files.open, ref, most)


def _contents(
    job: PackJob, row: PlannedRow, open_files: Iterable[OpenFile]
) -> FileFields | LeftOut:
    """Open the files of a row, and name their fields."""
    contents: FileFields = []
    # Of the file at fault.
    column = ""
    ref = FileRef()
    try:
        for (name, column, ref), open_file in zip(row.files, open_files, strict=True):  # noqa: B007
            contents.append(named_field(name, ref, open_file()))
    except Unusable as error:
        return _left_out(job, row, column, ref, error)
    has_names = bool(row.files) and bool(row.files[0][0])
    if len(contents) > 1 and not has_names:
        contents = numbered_fields(contents)
    for name, _ in contents:
        if not fits_header(f"{row.key}.{name}"):
            detail = f"the field {name!r:.200} has no room in the header of a tar, next to the key {row.key!r}"
            return LeftOut(row.source, row.number, "", LONG_NAME, detail)
    return contents


def _left_out(job: PackJob, row: PlannedRow, column: str, ref: FileRef, error: Unusable) -> LeftOut:
    """Return a row that is left out because of a file."""
    path = ""
    detail = error.detail
    if not is_stored(ref):
        path = job.files[row.source].name_of(ref)
    if path:
        detail = f"{path!r:.200}: {detail}"
    return LeftOut(row.source, row.number, column, error.reason, detail, path)
