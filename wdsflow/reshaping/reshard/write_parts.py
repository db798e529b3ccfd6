"""Writes the outputs of all parts; what an earlier run finished stays."""

from collections.abc import Callable
from typing import NamedTuple

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.run_outputs import run_outputs
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.words import how_many

from .open_inputs import OpenInputs
from .output_pieces import repeated_keys
from .reshard_options import ReshardOptions, SplitPart
from .reshard_report import OutputReport, PartReport, ReshardReport
from .sample_rows import RowFile
from .shard_bounds import bounds_of
from .write_output import OutputJob, made_from, write_output

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
