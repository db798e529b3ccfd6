"""Writes the outputs: the pieces of each, and a report of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np

from wdsflow.pieces.new_members import header
from wdsflow.pieces.pieces import OFFSET_BITS, address, number_of
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.report import run_outputs
from wdsflow.shards.source.base import Piece, Range, Source, SourceError
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.tar_entry import Ending, Entry, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.shell import both_ends
from wdsflow.text.words import how_many

from .arrange import Bounds, bounds_of
from .read_inputs import OpenInputs, key_bytes
from .reshard_options import ReshardOptions, SplitPart
from .reshard_report import OutputReport, PartReport, ReshardReport
from .sample_rows import END, KEY, PIECE, START, RowFile, inputs_of

_AHEAD = 64  # samples that are announced before they are read
_EXAMPLES = 3  # renamed keys that are reported
_SHOWN = 80  # characters of each


@dataclass(frozen=True, eq=False)
class PlannedOutput:
    """The samples of one output, in order."""

    rows: RowFile
    bounds: Bounds
    scattered: bool = False  # neighbours come from anywhere, and are announced before they are read


def output_pieces(job: PlannedOutput, inputs: JoinedSource, report: OutputReport) -> Iterator[Piece]:
    """Yield what an output consists of, in order, without its end; count samples in ``report``.

    Raises SourceError if an input changed, OSError if it cannot be read.
    """
    numbers = repeated_keys(job)
    taken = _keys_of(job) if numbers else set()
    report.samples = job.bounds.end - job.bounds.start
    at = job.bounds.start
    for rows in job.rows.pieces(*job.bounds):
        bases = (inputs_of(rows) << np.uint64(OFFSET_BITS)).astype(np.int64)
        ranges = [
            *zip(
                (bases + rows[:, START].astype(np.int64)).tolist(),
                (bases + rows[:, END].astype(np.int64)).tolist(),
                strict=True,
            )
        ]
        for place, piece in enumerate(ranges):
            if job.scattered and place + _AHEAD < len(ranges):
                start, end = ranges[place + _AHEAD]
                inputs.ahead(start, end - start)
            if at + place in numbers:
                yield from _renamed(inputs, piece, numbers[at + place], taken, report)
            else:
                yield piece
        at += len(ranges)


def repeated_keys(job: PlannedOutput) -> dict[int, int]:
    """Return the rows whose key a reader would confuse with that of a sample before, and which number they get.

    Those are the second and further samples of a key in a shard, and the first ones if the shard before ends with
    that key.
    """
    keys = job.rows.read(*job.bounds)[:, KEY]
    before = repeats_before(job)
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(again) and not before:
        return {}
    counts: Counter[int] = Counter({int(keys[0]): before} if before else {})
    wanted = {int(keys[order[at]]) for at in again.tolist()} | set(counts)
    found: dict[int, int] = {}
    for at in np.flatnonzero(np.isin(keys, np.array(list(wanted), np.uint64))).tolist():
        key = int(keys[at])
        counts[key] += 1
        if counts[key] > 1:
            found[job.bounds.start + at] = counts[key]
    return found


def repeats_before(job: PlannedOutput) -> int:
    """Return how many samples directly before the output have the key of its first one."""
    start = end = job.bounds.start
    if not start:
        return 0
    key = job.rows.read(start, start + 1)[0, KEY]
    while start:
        start = max(0, start - PIECE)
        other = np.flatnonzero(job.rows.read(start, min(start + PIECE, end))[:, KEY] != key)
        if len(other):
            return end - start - int(other[-1]) - 1
    return end


def _keys_of(job: PlannedOutput) -> set[int]:
    return set(job.rows.read(*job.bounds)[:, KEY].tolist())


def _renamed(inputs: JoinedSource, piece: Range, number: int, taken: set[int], report: OutputReport) -> Iterator[Piece]:
    """Yield a sample with another key: new headers, the same contents."""
    from xxhash import xxh3_64_intdigest

    base = address(number_of(piece[0]), 0)
    entries = list(_entries(inputs.get(number_of(piece[0])), piece[0] - base, piece[1] - base))
    key = split_name(entries[0].name)[0]
    if key is None:
        raise SourceError("io", f"it changed while it was read: no sample at byte {piece[0] - base:,}")
    while (digest := xxh3_64_intdigest(key_bytes(f"{key}-{number}"))) in taken:
        number += 1
    taken.add(digest)
    new = f"{key}-{number}"
    for entry in entries:
        if entry.kind != "file" or split_name(entry.name)[0] != key:
            yield base + entry.header, base + entry.next
            continue
        yield header(new + entry.name[len(key) :], entry.size)
        yield base + entry.data, base + entry.data + padded(entry.size)
    report.renamed += 1
    if len(report.examples) < _EXAMPLES:
        report.examples.append(f"{both_ends(key, _SHOWN)} -> {both_ends(new, _SHOWN)}")


def _entries(source: Source, start: int, end: int) -> Iterator[Entry]:
    at = start
    while at < end:
        try:
            entry = read_entry(source.read_at, at, {})
        except Ending as ending:
            raise SourceError("io", f"it changed while it was read: at byte {at:,} {ending}") from None
        yield entry
        at = max(entry.next, at + BLOCK)


_CODE = 1  # version of the result


@dataclass(frozen=True, eq=False, kw_only=True)
class OutputJob(PlannedOutput):
    """One output to write."""

    inputs: OpenInputs
    target: Path


def made_from(job: OutputJob, _: OutputReport | None = None) -> dict[str, object]:
    """Return what decides the bytes of an output."""
    from xxhash import xxh3_128

    digest, used = xxh3_128(), set[int]()
    for rows in job.rows.pieces(*job.bounds):
        digest.update(rows.tobytes())
        used.update(np.unique(inputs_of(rows)).tolist())
    digest.update(str(repeats_before(job)).encode())
    inputs = xxh3_128()
    for number in sorted(used):
        inputs.update(repr((number, job.inputs.url(number), sorted(job.inputs.identity(number).items()))).encode())
    return {"code": _CODE, "samples": digest.hexdigest(), "inputs": inputs.hexdigest()}


def write_output(job: OutputJob, stop: Event) -> OutputReport:
    """Write an output, whole or not at all.

    Raises SourceError if an input changed, OSError if the output cannot be written.
    """
    report, source = OutputReport(), job.inputs.source()
    report.bytes = write_pieces(job.target, source, stopping(output_pieces(job, source, report), stop))
    report.output = str(job.target)
    return report


def stopping(pieces: Iterable[Piece], stop: Event) -> Iterator[Piece]:
    """Yield pieces until another thread has failed. Raises InterruptedError then."""
    for piece in pieces:
        if stop.is_set():
            raise InterruptedError("given up")
        yield piece


Ready = Callable[[], object]
_DIGITS = 5  # of the numbers in names, as those of img2dataset


class RepeatedKeys(ValueError):
    """Keys that come twice in a shard, where that was to be refused."""


class Planned(NamedTuple):
    """A part, the record of its folder, and its samples in order."""

    part: SplitPart
    record: OutputRecord[OutputReport]
    rows: RowFile


def write_parts(
    parts: list[Planned],
    inputs: OpenInputs,
    options: ReshardOptions,
    report: ReshardReport,
    jobs: int,
    begin: Begin | None,
    ready: Ready | None = None,
) -> None:
    """Write all outputs and add them to the report. ``ready`` is called before anything is written.

    Raises ValueError, RepeatedKeys, FileExistsError and OtherOptions before anything is written; later OSError, after
    which finished outputs are kept.
    """
    total = sum(rows.count for _, _, rows in parts)
    sources = sum(found.rows > 0 for found in report.inputs)
    work: list[list[OutputJob]] = []
    for part, record, rows in parts:
        bounds = bounds_of(rows, options, sources * rows.count / max(1, total), part.name)
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        targets = (record.folder / f"{number:0{digits}}.tar" for number in range(len(bounds)))
        work.append(
            [
                OutputJob(rows, each, options.scattered, inputs=inputs, target=target)
                for target, each in zip(targets, bounds, strict=True)
            ]
        )
    if options.repeated_keys == "refuse":
        _refuse_repeated([job for of_part in work for job in of_part])
    if ready is not None:
        ready()
    for (_, record, _), of_part in zip(parts, work, strict=True):
        _begin(record, options, of_part, report)
    all_work = [(record, job) for (_, record, _), of_part in zip(parts, work, strict=True) for job in of_part]
    done = run_outputs(
        all_work, write_output, made_from, report, jobs=jobs, begin=begin, label=lambda job: str(job.target)
    )
    inputs.refuse_changed()
    at = 0
    for (part, record, _), of_part in zip(parts, work, strict=True):
        report.parts.append(PartReport(part.name, record.folder, done[at : at + len(of_part)]))
        at += len(of_part)
        if record.outputs:
            record.finish()


def _begin(
    record: OutputRecord[OutputReport], options: ReshardOptions, work: list[OutputJob], report: ReshardReport
) -> None:
    """Record what will be written, and remove what an earlier run made of other inputs: a reader would read it too."""
    names = [job.target.name for job in work]
    if not names and not record.outputs:
        return
    before = record.outputs
    record.begin(options.flags(), names)
    for name in before - set(names):
        if (record.folder / name).exists():
            (record.folder / name).unlink()
            report.removed += 1


def _refuse_repeated(work: list[OutputJob]) -> None:
    found = [(job, len(numbers)) for job in work if (numbers := repeated_keys(job))]
    if found:
        samples = how_many(sum(count for _, count in found), "sample")
        raise RepeatedKeys(
            f"{samples} would share a shard with another sample of the same key, in {how_many(len(found), 'shard')}"
        )
