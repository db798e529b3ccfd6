"""The second pass: one shard, from the rows of the plan and the files that they name."""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from threading import Event

from wdsflow.pieces.pieces import END
from wdsflow.pieces.tar_members import header
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.tar_header import BLOCK, padded

from ..left_out import LeftOut, LeftOutRows
from ..pack_job import PackJob
from ..pack_report import PackedShard
from ..rows.stored_rows import PlannedRow
from .open_rows import opened_rows
from .sample_fields import FileFields


def write_shard(job: PackJob, report: PackedShard, stop: Event) -> None:
    """Write a shard atomically; no file if none of its rows becomes a sample.

    Raises SourceError if a file changed or a store fails, OSError if the shard cannot be written.
    """
    pieces = _pieces(job, report, stop)
    first = next(pieces, None)
    if first is not None:
        report.bytes = write_pieces(job.target, Source(), chain([first], pieces))
        report.output = str(job.target)


def report_without_writing(job: PackJob, stop: Event) -> PackedShard:
    """Return the report of a shard that is not written."""
    report = PackedShard.of(job)
    for row, contents in _samples(job, report, stop):
        sizes = [opened.size for _, opened in contents]
        sizes += [len(text) for _, text in row.texts]
        report.bytes += sum(BLOCK + padded(size) for size in sizes)
    if report.samples:
        report.bytes += len(END)
    return report


def _samples(
    job: PackJob, report: PackedShard, stop: Event
) -> Iterator[tuple[PlannedRow, FileFields]]:
    """Yield the rows that become samples, with their files.

    Counts all rows in ``report`` and lists those left out.

    Raises InterruptedError when ``stop`` is set.
    """
    report.rows = job.end - job.start
    left_out = LeftOutRows(job.listing)
    with closing(left_out), closing(opened_rows(job)) as rows:
        for row, contents in rows:
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


def _pieces(job: PackJob, report: PackedShard, stop: Event) -> Iterator[bytes]:
    """Yield the members of all samples."""
    for row, contents in _samples(job, report, stop):
        yield from _members(row, contents)


def _members(row: PlannedRow, contents: FileFields) -> Iterator[bytes]:
    """Yield the members of a sample, in one piece if its files are small."""
    parts: list[bytes] = []
    for name, opened in contents:
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
