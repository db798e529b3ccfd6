"""New shards of other sizes, in another order or in parts, from the samples of shards."""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.run_outputs import run_outputs
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.atomic import scratch_folder
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .arrange import arrange
from .bounds import bounds_of
from .input_job import InputJob
from .interleaved import refuse_interleaved
from .open_inputs import OpenInputs
from .output_job import OutputShardJob
from .read_inputs import read_input
from .repeated_keys import refuse_repeated
from .reshard_options import (
    USUAL_GRID,
    Grid,
    ReshardOptions,
    ReshardRequest,
    SplitPart,
    checked_options,
    parse_grid,
    parts_of,
)
from .reshard_report import InputReport, OutputReport, PartReport, ReshardReport
from .row_file import RowFile
from .write_output import made_from, write_output

KIND = "reshard"
_SCRATCH = "reshard-scratch"
# The least digits of the numbers in names of outputs, as in img2dataset.
_DIGITS = 5
# Why an output is written again, by the value of ``made_from`` that changed.
_REASONS = {"samples": "other samples belong into it", "inputs": "an input changed"}
_Record = OutputRecord[OutputReport]


class NothingRead(ValueError):
    """No input could be read."""


@keywords(ReshardRequest)
def reshard_shards(
    urls: str | Iterable[str], out: str | os.PathLike[str], request: ReshardRequest
) -> ReshardReport:
    """Write the samples of shards into new shards, with ``sizes.json`` and ``__len__``.

    Samples are copied byte for byte, with their headers; nothing is decoded. The inputs never
    change. Memory does not grow with the data. The same call resumes an interrupted run: finished
    shards are kept. By default there are as many shards as inputs, with equal numbers of samples,
    in the same order.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        request: its attributes are keyword arguments.

    Raises:
        ValueError: arguments are invalid, urls match nothing, or there are fewer samples than
            shards.
        InterleavedMembers, RepeatedKeys, NothingRead: the inputs do not allow it; nothing was
            written.
        OtherOptions: ``out`` holds shards that were written with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no reshard wrote, or the folder holds an input.
        OSError: an output cannot be written, or an input changed. Finished shards are kept, partial
            ones removed.
    """
    with working_folder(out) as folder:
        return _reshard(folder, urls, request).naming(out, folder)


@dataclass
class _Part:
    """A part of the samples, the record of its folder, and its outputs in order."""

    name: str
    record: _Record
    jobs: list[OutputShardJob] = field(default_factory=list)


def _reshard(folder: Path, urls: str | Iterable[str], request: ReshardRequest) -> ReshardReport:
    options = checked_options(request)
    grid = _grid(request, options)
    shards = expand_existing(urls, allow_pipe=request.allow_pipe)
    if request.jobs < 1:
        raise ValueError("jobs must be at least 1")
    _refuse_inputs_inside(shards, [folder, *(_folder_of(part, folder) for part in options.parts)])
    with ExitStack() as stack:
        root = stack.enter_context(_record(folder))
        parts: list[_Part] = []
        for part in options.parts:
            record = stack.enter_context(_record(_folder_of(part, folder))) if part.name else root
            parts.append(_Part(part.name, record))
        records = {root, *(part.record for part in parts)}
        if not request.restart:
            root.refuse_other(options.flags())
        for record in records:
            record.refuse_foreign_shards()
        scratch = folder / INSIDE / _SCRATCH
        stack.enter_context(scratch_folder(scratch))
        inputs = [
            InputJob(number, url, scratch, options.is_scattered, options.by_key, request.allow_pipe)
            for number, url in enumerate(shards)
        ]
        report = ReshardReport(_read_all(inputs, request), [], grid)
        report.stale_removed = sum(record.stale for record in records)
        _arrange_and_write(inputs, parts, root, options, request, report)
    return report


def _grid(request: ReshardRequest, options: ReshardOptions) -> Grid:
    """Return the ranks and workers for which the evenness of an epoch is reported.

    Raises ValueError.
    """
    if request.even_for is not None:
        return parse_grid(request.even_for, "--even-for")
    return options.divisible_by or USUAL_GRID


def _folder_of(part: SplitPart, folder: Path) -> Path:
    return folder / part.name if part.name else folder


def _refuse_inputs_inside(urls: Iterable[Shard], folders: Iterable[Path]) -> None:
    """Raise FileExistsError if an input is in a folder for outputs."""
    output_folders = {os.path.realpath(folder) for folder in folders}
    for url in urls:
        path = url.path
        if path is not None and os.path.dirname(os.path.realpath(path)) in output_folders:
            raise FileExistsError(
                f"{path} is an input, and in a folder for outputs: choose another folder for them"
            )


def _record(folder: Path) -> _Record:
    return OutputRecord(folder, KIND, "resharded", OutputReport, _REASONS)


def _read_all(inputs: Sequence[InputJob], request: ReshardRequest) -> list[InputReport]:
    """Read all inputs for the first time. Raises NothingRead, InterleavedMembers."""
    inputs[0].copies.mkdir()
    report_of: dict[int, InputReport] = {}

    def note(job: InputJob, report: InputReport) -> None:
        report_of[job.number] = report

    run_on_shards(inputs, read_input, note, request.jobs, request.begin)
    reports = [report_of[job.number] for job in inputs]
    if all(report.unread for report in reports):
        others = f" and {how_many(len(reports) - 1, 'more shard')}" if len(reports) > 1 else ""
        raise NothingRead(f"nothing could be read: {reports[0].url}{others}: {reports[0].lost[0]}")
    refuse_interleaved(reports)
    return reports


def _arrange_and_write(
    inputs: Sequence[InputJob],
    parts: Sequence[_Part],
    root: _Record,
    options: ReshardOptions,
    request: ReshardRequest,
    report: ReshardReport,
) -> None:
    """Arrange the samples and write the outputs of all parts.

    ``root`` is the record of the whole run.
    """
    rows_of_parts, outside = arrange(inputs, options, inputs[0].scratch)
    for input_report in report.inputs:
        report.left_out += input_report.dropped
    report.left_out += outside
    _plan(parts, rows_of_parts, options, report)
    if options.repeated_keys == "refuse":
        refuse_repeated([job for part in parts for job in part.jobs])
    # Until here nothing was written or removed.
    if request.restart:
        _clear(root, [part.record for part in parts])
    for part in parts:
        _begin(part, options, report)
    with closing(OpenInputs(report.inputs, inputs[0].copies, request.jobs)) as opened:
        output_reports = run_outputs(
            [(part.record, job) for part in parts for job in part.jobs],
            partial(write_output, opened),
            partial(made_from, opened),
            report,
            jobs=request.jobs,
            begin=request.begin,
            label=lambda job: str(job.target),
        )
        opened.refuse_changed()
    position = 0
    for part in parts:
        end = position + len(part.jobs)
        report.parts.append(PartReport(part.name, part.record.folder, output_reports[position:end]))
        position = end
        if part.record.outputs:
            part.record.finish()
    is_split = root not in [part.record for part in parts]
    if is_split and report.samples_written:
        # The options are recorded where the next run looks for them.
        root.begin(options.flags(), [])
    report.check()


def _plan(
    parts: Sequence[_Part],
    rows_of_parts: Sequence[RowFile],
    options: ReshardOptions,
    report: ReshardReport,
) -> None:
    """Plan the outputs of each part. Raises ValueError."""
    samples = sum(rows.count for rows in rows_of_parts)
    inputs_with_samples = sum(input_report.rows > 0 for input_report in report.inputs)
    for part, rows in zip(parts, rows_of_parts, strict=True):
        usual_count = inputs_with_samples * rows.count / max(1, samples)
        bounds = bounds_of(rows, options, usual_count, part.name)
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        for number, (start, end) in enumerate(bounds):
            target = part.record.folder / f"{number:0{digits}}.tar"
            part.jobs.append(OutputShardJob(rows, start, end, options.is_scattered, target))


def _clear(root: _Record, records: Sequence[_Record]) -> None:
    """Remove the outputs of earlier runs and of their parts; ``records`` are open."""
    open_records = {record.folder: record for record in (root, *records)}
    flags = root.options or {}
    for earlier_part in parts_of(flags.get("--split"), flags.get("--folds")):
        folder = _folder_of(earlier_part, root.folder)
        if not earlier_part.name or not folder.is_dir():
            continue
        open_record = open_records.get(folder)
        with _record(folder) if open_record is None else nullcontext(open_record) as record:
            record.clear()
    for record in open_records.values():
        record.clear()


def _begin(part: _Part, options: ReshardOptions, report: ReshardReport) -> None:
    """Record the planned outputs, and remove outputs of an earlier run that are not among them.

    The earlier run had other inputs. Readers would also read its outputs.
    """
    record = part.record
    names = [job.target.name for job in part.jobs]
    earlier_names = record.outputs
    if not names and not earlier_names:
        return
    record.begin(options.flags(), names)
    for name in earlier_names - set(names):
        path = record.folder / name
        if path.exists():
            path.unlink()
            report.removed += 1
