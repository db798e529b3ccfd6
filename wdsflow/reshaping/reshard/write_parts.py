"""Writes the outputs of all parts; what an earlier run finished stays."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from wdsflow.shards.output_record import OutputRecord
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.text.words import how_many

from .open_inputs import OpenInputs
from .output_pieces import OutputReport, repeated_keys
from .reshard_options import ReshardOptions, SplitPart
from .reshard_report import PartReport, ReshardReport
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
    record: OutputRecord
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
                OutputJob(rows, each, inputs, options.scattered, target)
                for target, each in zip(targets, bounds, strict=True)
            ]
        )
    if options.repeated_keys == "refuse":
        _refuse_repeated([job for of_part in work for job in of_part])
    if ready is not None:
        ready()
    for (_, record, _), of_part in zip(parts, work, strict=True):
        _begin(record, options, of_part, report)
    done = _write_all(parts, work, inputs, report, jobs, begin)
    for (part, record, _), of_part in zip(parts, work, strict=True):
        outputs = [done[job] for job in of_part]
        report.parts.append(PartReport(part.name, record.folder, outputs))


def _begin(record: OutputRecord, options: ReshardOptions, work: list[OutputJob], report: ReshardReport) -> None:
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


def _write_all(
    parts: list[Planned],
    work: list[list[OutputJob]],
    inputs: OpenInputs,
    report: ReshardReport,
    jobs: int,
    begin: Begin | None,
) -> dict[OutputJob, OutputReport]:
    records = {job: record for (_, record, _), of_part in zip(parts, work, strict=True) for job in of_part}
    done: dict[OutputJob, OutputReport] = {}
    todo = []
    for job, record in records.items():
        before, reason = record.finished(job.target.name, partial(made_from, job, inputs))
        if before is not None:
            done[job] = OutputReport(**before)
            continue
        todo.append(job)
        report.changed += [f"{job.target}: {reason}"] if reason else []
    report.resumed = len(done)

    def note(job: OutputJob, output: OutputReport) -> None:
        done[job] = output
        records[job].add(job.target.name, made_from(job, inputs), output.to_dict())

    run_in_threads(todo, write_output, note, jobs, begin)
    inputs.refuse_changed()
    for (_, record, _), of_part in zip(parts, work, strict=True):
        if record.outputs:
            counts = {job.target.name: done[job].samples for job in of_part}
            record.finish(list(counts), counts)
    return done
