"""The second pass: the outputs of all parts, each whole or not at all; what an earlier run finished stays."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np

from wdsflow.pieces.writer import write_pieces
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.run_outputs import run_outputs
from wdsflow.shards.source.base import Piece
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.words import how_many

from .arrange import bounds_of
from .open_inputs import OpenInputs
from .output_pieces import PlannedOutput, output_pieces, repeated_keys, repeats_before
from .reshard_options import ReshardOptions, SplitPart
from .reshard_report import OutputReport, PartReport, ReshardReport
from .sample_rows import RowFile, inputs_of

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
