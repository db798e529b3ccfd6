"""The second pass: one shard, from the rows of the plan and the files that they name."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.media import promised_format
from wdsflow.pieces.pieces import END, header
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.tar_header import BLOCK, padded

from .field_types import checked_text, field_by_type, is_media
from .keys import fits_header
from .left_out import LeftOut, LeftOutRows
from .media_files import FIRST, FileRef, MediaFiles, Opened
from .pack_report import PackedShard
from .stored_bytes import StoredBytes
from .stored_rows import PlannedRow, StoredRows
from .unusable import LONG_NAME, NOT_AN_IMAGE, UNREADABLE, Unusable

# Version of the result.
_CODE = 1
# Bytes of a text or json next to an image.
_MOST_TEXT = 16 << 20
# Files of a store that are requested at once, of several rows or of one.
_AHEAD = 32
# Bytes that are read of each file, also of a row with many.
_HEADER = 1 << 16

Contents = list[tuple[str, Opened]]
"""The fields of a sample that are files, and what they hold."""
OpenFile = Callable[[], Opened]
"""Reads the first bytes of a file, or waits for them. Raises Unusable, SourceError."""


@dataclass(frozen=True, eq=False)
class PackJob:
    """One shard: the rows of the plan from ``start`` up to ``end``, in order. It can be sent to another process if it travels.

    ``listing``: the file for rows that are left out.
    """

    plan: StoredRows
    files: tuple[MediaFiles, ...]
    stored: StoredBytes
    start: int
    end: int
    target: Path
    listing: Path

    def rows(self) -> Iterator[PlannedRow]:
        """Yield the rows."""
        return self.plan.planned(self.start, self.end)

    @property
    def travels(self) -> bool:
        """Whether another process can write it."""
        return all(files.travels for files in self.files)

    @property
    def is_remote(self) -> bool:
        """Whether files are in an object store, where each takes a while."""
        return not all(files.has_sizes for files in self.files)


def made_from(job: PackJob) -> dict[str, object]:
    """Return what decides the bytes of a shard: keys, texts, and paths, sizes and times of files."""
    from xxhash import xxh3_128

    digest = xxh3_128()
    for row in job.plan.raw(job.start, job.end):
        digest.update(row)
    return {"code": _CODE, "rows": digest.hexdigest()}


def write_shard(job: PackJob, report: PackedShard, stop: Event) -> None:
    """Write a shard atomically; no file if none of its rows becomes a sample.

    Raises SourceError if a file changed or a store fails, OSError if the shard cannot be written.
    """
    pieces = (piece for row, files in _samples(job, report, stop) for piece in _members(row, files))
    first = next(pieces, None)
    if first is not None:
        report.bytes = write_pieces(job.target, Source(), chain([first], pieces))
        report.output = str(job.target)


def look_at(job: PackJob, stop: Event) -> PackedShard:
    """Return the report of a shard that is not written."""
    report = PackedShard.of(job)
    for row, files in _samples(job, report, stop):
        sizes = [opened.size for _, opened in files] + [len(text) for _, text in row.texts]
        report.bytes += sum(BLOCK + padded(size) for size in sizes)
    report.bytes += len(END) if report.samples else 0
    return report


def _samples(
    job: PackJob, report: PackedShard, stop: Event
) -> Iterator[tuple[PlannedRow, Contents]]:
    """Yield the rows that become samples, with their files; count all rows in ``report``, list those left out."""
    report.rows = job.end - job.start
    left_out = LeftOutRows(job.listing)
    with (
        closing(left_out),
        closing(_opened_ahead(job) if job.is_remote else _opened_in_turn(job)) as opened,
    ):
        for row, contents in opened:
            if stop.is_set():
                raise InterruptedError("given up")
            if isinstance(contents, LeftOut):
                left_out.add(contents)
                continue
            report.samples += 1
            for name, _ in contents:
                report.fields[name] = report.fields.get(name, 0) + 1
            yield row, contents
    report.left_out = dict(left_out.counts)


def _opened_in_turn(job: PackJob) -> Generator[tuple[PlannedRow, Contents | LeftOut]]:
    """Open the files of one row after the other."""
    for row in job.rows():
        yield row, _opened(job, row, _open_files(job, row))


def _opened_ahead(job: PackJob) -> Generator[tuple[PlannedRow, Contents | LeftOut]]:
    """Open the files of several rows at once, and yield the rows in order. The bytes that wait are limited by files."""
    pool = ThreadPoolExecutor(_AHEAD, "wdsflow-pack")
    waiting: deque[tuple[PlannedRow, list[Future[Opened]]]] = deque()
    requested = 0

    def first() -> tuple[PlannedRow, Contents | LeftOut]:
        nonlocal requested
        row, answers = waiting.popleft()
        requested -= len(answers)
        return row, _opened(job, row, (answer.result for answer in answers))

    try:
        for row in job.rows():
            while waiting and requested + len(row.files) > _AHEAD:
                yield first()
            waiting.append((row, [pool.submit(open_file) for open_file in _open_files(job, row)]))
            requested += len(row.files)
        while waiting:
            yield first()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _open_files(job: PackJob, row: PlannedRow) -> Iterator[OpenFile]:
    """Yield what opens each file of a row. Together they read about as much as one file alone."""
    most = max(FIRST // max(len(row.files), 1), _HEADER)
    for _, _, ref in row.files:
        files = job.stored if isinstance(ref[0], int) else job.files[row.source]
        yield partial(files.open, ref, most)


def _opened(job: PackJob, row: PlannedRow, open_files: Iterable[OpenFile]) -> Contents | LeftOut:
    """Open the files of a row, and name their fields."""
    contents: Contents = []
    column, ref = "", FileRef()
    try:
        for (name, column, ref), open_file in zip(row.files, open_files, strict=True):  # noqa: B007 - of the file at fault
            opened = open_file()
            contents.append(
                _checked(name, ref, opened) if name else (_type_of(ref, opened), opened)
            )
    except Unusable as error:
        path = job.files[row.source].name_of(ref) if isinstance(ref[0], str) else ""
        shown = f"{path!r:.200}: " if path else ""
        return LeftOut(row.source, row.number, column, error.reason, f"{shown}{error.detail}", path)
    if len(contents) > 1 and not row.files[0][0]:
        contents = list(_numbered(contents))
    for name, _ in contents:
        if not fits_header(f"{row.key}.{name}"):
            detail = f"the field {name!r:.200} has no room in the header of a tar, next to the key {row.key!r}"
            return LeftOut(row.source, row.number, "", LONG_NAME, detail)
    return contents


def _type_of(ref: FileRef, opened: Opened) -> str:
    """Return the name of the field for an image or a video. Raises Unusable."""
    extension = ref[0].rpartition(".")[2].lower() if isinstance(ref[0], str) else ""
    name = field_by_type(opened.first, extension)
    if not name:
        raise Unusable(
            NOT_AN_IMAGE, f"it begins with {opened.first[:16]!r}" if opened.size else "it is empty"
        )
    return name


def _checked(name: str, ref: FileRef, opened: Opened) -> tuple[str, Opened]:
    """Check a file that has a name already: an image or a video by its bytes, a text by all of it. Raises Unusable."""
    if is_media(name):
        _type_of(ref, opened)
    if name not in ("txt", "json"):
        return name, opened
    if opened.size > _MOST_TEXT:
        raise Unusable(
            UNREADABLE, f"it has {opened.size:,} bytes; at most {_MOST_TEXT:,} of a text are read"
        )
    data = b"".join([opened.first, *(opened.rest or ())])
    checked_text(name, data)
    return name, Opened(len(data), data)


def _numbered(files: Contents) -> Iterator[tuple[str, Opened]]:
    """Number the fields of several images, and of several videos: ``0.jpg``, ``1.jpg``."""
    videos = [bool(promised_format(name)) for name, _ in files]
    counts = {True: 0, False: 0}
    for is_video, (name, opened) in zip(videos, files, strict=True):
        yield f"{counts[is_video]}.{name}" if videos.count(is_video) > 1 else name, opened
        counts[is_video] += 1


def _members(row: PlannedRow, files: Contents) -> Iterator[bytes]:
    """Yield the members of a sample, in one piece if its files are small."""
    parts: list[bytes] = []
    for name, opened in files:
        parts.append(header(f"{row.key}.{name}", opened.size))
        parts.append(opened.first)
        if opened.rest is not None:
            yield b"".join(parts)
            parts = []
            yield from opened.rest
        parts.append(bytes(-opened.size % BLOCK))
    for name, text in row.texts:
        parts.append(header(f"{row.key}.{name}", len(text)))
        parts.append(text)
        parts.append(bytes(-len(text) % BLOCK))
    yield b"".join(parts)
