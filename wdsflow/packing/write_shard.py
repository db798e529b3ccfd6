"""The second pass: one shard, from the rows of the plan and the files that they name."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.media import promised_format
from wdsflow.pieces.pieces import END, header, member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.tar_header import BLOCK

from .field_types import checked_text, field_by_type, is_media
from .media_files import FileRef, MediaFiles, Opened, StoredBytes
from .pack_report import PackedShard
from .plan import LeftOut, Plan, PlannedRow
from .unusable import NOT_AN_IMAGE, UNREADABLE, Unusable

_CODE = 1  # version of the result
_MOST_TEXT = 16 << 20  # bytes of a text or json next to an image
_AHEAD = 32  # files of a store that are requested at once

Contents = list[tuple[str, Opened]]
"""The fields of a sample that are files, and what they hold."""


@dataclass(frozen=True, eq=False)
class PackJob:
    """One shard: the rows of the plan from ``start`` up to ``end``, in order."""

    plan: Plan
    files: tuple[MediaFiles, ...]
    stored: StoredBytes
    start: int
    end: int
    target: Path

    def rows(self) -> Iterator[PlannedRow]:
        """Yield the rows."""
        return self.plan.planned(self.start, self.end)

    @property
    def is_remote(self) -> bool:
        """Whether files are in an object store, where each takes a while."""
        return not all(each.has_sizes for each in self.files)


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
    pieces = _pieces(job, report, stop)
    first = next(pieces, None)
    if first is not None:
        report.bytes = write_pieces(job.target, Source(), chain([first], pieces))
        report.output = str(job.target)


def look_at(job: PackJob, stop: Event) -> PackedShard:
    """Return the report of a shard that is not written."""
    report = PackedShard.of(job)
    for piece in _pieces(job, report, stop):
        report.bytes += len(piece)
    report.bytes += len(END) if report.samples else 0
    return report


def _pieces(job: PackJob, report: PackedShard, stop: Event) -> Iterator[bytes]:
    """Yield the members of all samples; count rows in ``report``."""
    report.rows = job.end - job.start
    with ExitStack() as stack:
        opened = _opened_ahead(job, stack) if job.is_remote else ((row, _opened(job, row)) for row in job.rows())
        for row, contents in opened:
            if stop.is_set():
                raise InterruptedError("given up")
            if isinstance(contents, LeftOut):
                report.leave_out(contents)
                continue
            report.samples += 1
            yield from _sample(row, contents, report)


def _opened_ahead(job: PackJob, stack: ExitStack) -> Iterator[tuple[PlannedRow, Contents | LeftOut]]:
    """Open the files of several rows at once, and yield them in order."""
    pool = ThreadPoolExecutor(_AHEAD, "wdsflow-pack")
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    rows = job.rows()
    waiting: deque[tuple[PlannedRow, Future[Contents | LeftOut]]] = deque()
    for row in rows:
        waiting.append((row, pool.submit(_opened, job, row)))
        if len(waiting) >= _AHEAD:
            first, answer = waiting.popleft()
            yield first, answer.result()
    for first, answer in waiting:
        yield first, answer.result()


def _opened(job: PackJob, row: PlannedRow) -> Contents | LeftOut:
    """Open the files of a row, and name their fields."""
    found: Contents = []
    column, ref = "", FileRef()
    try:
        for name, column, ref in row.files:  # noqa: B007 - those of the file at fault are reported
            opened = job.stored.open(ref) if isinstance(ref[0], int) else job.files[row.source].open(ref)
            found.append(_typed(ref, opened) if not name else _checked(name, ref, opened))
    except Unusable as error:
        shown = f"{job.files[row.source].name_of(ref)!r:.200}: " if isinstance(ref[0], str) else ""
        return LeftOut(row.source, row.number, column, error.reason, f"{shown}{error.detail}")
    return found if len(found) < 2 or row.files[0][0] else list(_numbered(found))


def _typed(ref: FileRef, opened: Opened) -> tuple[str, Opened]:
    """Name an image or a video by its type. Raises Unusable."""
    extension = ref[0].rpartition(".")[2].lower() if isinstance(ref[0], str) else ""
    name = field_by_type(opened.first, extension)
    if not name:
        raise Unusable(NOT_AN_IMAGE, f"it begins with {opened.first[:16]!r}" if opened.size else "it is empty")
    return name, opened


def _checked(name: str, ref: FileRef, opened: Opened) -> tuple[str, Opened]:
    """Check a file that has a name already: an image or a video by its bytes, a text by all of it. Raises Unusable."""
    if is_media(name):
        _typed(ref, opened)
    if name not in ("txt", "json"):
        return name, opened
    if opened.size > _MOST_TEXT:
        raise Unusable(UNREADABLE, f"it has {opened.size:,} bytes; at most {_MOST_TEXT:,} of a text are read")
    data = b"".join([opened.first, *opened.rest])
    checked_text(name, data)
    return name, Opened(len(data), data)


def _numbered(files: Contents) -> Iterator[tuple[str, Opened]]:
    """Number the fields of several images, and of several videos: ``0.jpg``, ``1.jpg``."""
    videos = [bool(promised_format(name)) for name, _ in files]
    counts = {True: 0, False: 0}
    for is_video, (name, opened) in zip(videos, files, strict=True):
        yield f"{counts[is_video]}.{name}" if videos.count(is_video) > 1 else name, opened
        counts[is_video] += 1


def _sample(row: PlannedRow, files: Contents, report: PackedShard) -> Iterator[bytes]:
    """Yield the members of a sample, joined as far as they are in memory."""
    parts: list[bytes] = []
    for name, opened in files:
        report.fields[name] = report.fields.get(name, 0) + 1
        parts += (header(f"{row.key}.{name}", opened.size), opened.first)
        if len(opened.first) < opened.size:
            yield b"".join(parts)
            yield from opened.rest
            parts = []
        parts.append(bytes(-opened.size % BLOCK))
    parts += [member(f"{row.key}.{name}", text) for name, text in row.texts]
    yield b"".join(parts)
