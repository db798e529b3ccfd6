"""Shards from the rows of tables, or from the files of folders."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from wdsflow.records.run_outputs import run_outputs
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.atomic import atomic_file, scratch_folder
from wdsflow.shards.scratch import scratch
from wdsflow.text.options import keywords

from .folder_names import refuse_pattern
from .kept_shards import refuse_lost_samples
from .left_out import LeftOut, add_example, read_left_out
from .pack_job import PackJob, made_from
from .pack_options import PackRequest, ShardLimit
from .pack_record import PackRecord, listing_of
from .pack_report import PackedShard, PackReport
from .pack_workers import PackWorkers
from .rows.inputs import Input, inputs_of
from .rows.pack_planner import PackPlanner
from .shard.write_shard import report_without_writing, write_shard

KIND = "pack"
_SCRATCH = "pack-scratch"
_LISTED = "pack-left-out.jsonl"
_REASONS = {"rows": "the table or its files changed"}


@keywords(PackRequest)
def pack_shards(
    tables: str | Iterable[str], out: str | os.PathLike[str], request: PackRequest
) -> PackReport:
    """Write shards from the rows of tables or the files of folders.

    Writes ``sizes.json`` and ``__len__`` next to them.

    Files are copied byte for byte; nothing is decoded. Memory does not grow with the number of
    rows. The same call resumes an interrupted run: finished shards are kept.

    Args:
        tables: one or several: .jsonl, .json, .csv, .tsv or .parquet, a folder or a .zip; local, or
            urls for fsspec.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        request: each is a keyword argument.

    Raises:
        TableError: a table cannot be read, or lacks a column; nothing is written.
        LosesSamples: files are missing now, without which finished shards would have fewer samples;
            nothing is removed.
        WhichColumn: it is not known which column holds images or captions.
        PatternName: readers would take ``out`` for a pattern, a list or a command.
        ValueError: arguments are invalid.
        OtherOptions: ``out`` holds shards that were packed with other options.
        Busy: another run works in ``out``.
        FileExistsError: ``out`` holds shards that no pack wrote.
        OSError: an output cannot be written, or a file changed while it was read. Finished shards
            are kept.
    """
    names = [tables] if isinstance(tables, str) else list(tables)
    refuse_pattern(os.fspath(out))
    with working_folder(out, dry_run=request.dry_run) as folder:
        limit = ShardLimit(request)
        if request.jobs < 1:
            raise ValueError("jobs must be at least 1")
        inputs = inputs_of(names)
        if request.dry_run:
            return _dry_run(inputs, limit, request)
        report = _pack_into(folder, inputs, limit, request)
        return report.naming(out, folder)


def _dry_run(inputs: Sequence[Input], limit: ShardLimit, request: PackRequest) -> PackReport:
    """Read everything that decides what is written, and write nothing."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(KIND))
        workers = stack.enter_context(PackWorkers(request.jobs))
        planner = PackPlanner(inputs, limit, request, folder, workers.start)
        stack.enter_context(closing(planner))
        planner.read()
        # By their first row.
        shards: dict[int, PackedShard] = {}

        def note(job: PackJob, shard: PackedShard) -> None:
            shards[job.start] = shard

        (folder / INSIDE).mkdir()
        jobs = planner.jobs(folder)
        workers.run(jobs, report_without_writing, note, request.jobs, request.begin)
        report = planner.report()
        report.shards = [shards[job.start] for job in jobs]
        report.dry_run = True
        for row in _left_out_when_read(jobs, report):
            add_example(report.examples, row)
    report.check()
    return report


def _pack_into(
    folder: Path, inputs: Sequence[Input], limit: ShardLimit, request: PackRequest
) -> PackReport:
    """Read all tables, and write the shards that are not done into a folder with a record."""
    flags = request.flags([source.named for source in inputs])
    _refuse_inside(folder, inputs)
    with ExitStack() as stack:
        record = stack.enter_context(PackRecord(folder, KIND, "packed", PackedShard, _REASONS))
        if not request.restart:
            record.refuse_other(flags)
        record.refuse_foreign_shards()
        record.mark_reading()
        scratch_path = folder / INSIDE / _SCRATCH
        stack.enter_context(scratch_folder(scratch_path))
        held = [lock.fd for lock in record.locks]
        workers = stack.enter_context(PackWorkers(request.jobs, held))
        planner = PackPlanner(inputs, limit, request, scratch_path, workers.start)
        stack.enter_context(closing(planner))
        planner.read()
        jobs = planner.jobs(folder)
        report = planner.report()
        report.folder = str(folder)
        report.stale_removed = record.stale
        if request.restart:
            record.clear()
        else:
            folders = [source.named for source in inputs if source.kind == "folder"]
            refuse_lost_samples(record, planner.plan, folder / INSIDE / _LISTED, folders)
        report.removed = _begin(record, flags, [job.target.name for job in jobs])
        report.shards = run_outputs(
            [(record, job) for job in jobs],
            write_shard,
            made_from,
            report,
            jobs=request.jobs,
            begin=request.begin,
            label=lambda job: str(job.target),
            runner=workers.run,
        )
        report.listed = _list_left_out(folder / INSIDE / _LISTED, planner, jobs, report)
        record.finish()
    report.check()
    return report


def _refuse_inside(folder: Path, inputs: Sequence[Input]) -> None:
    """Raise ValueError if shards would be written into a folder that is packed."""
    real = os.path.realpath(folder)
    for source in inputs:
        if source.kind != "folder" or source.is_remote:
            continue
        if f"{real}/".startswith(f"{os.path.realpath(source.folder)}/"):
            raise ValueError(
                f"{folder} is in {source.named}, which is packed: choose a folder outside of it with -o"
            )


def _begin(record: PackRecord, flags: dict[str, object], names: list[str]) -> int:
    """Record the planned shards, and remove those of an earlier run of other rows.

    Readers would also read the old shards. Returns how many were removed.
    """
    if not names and not record.outputs:
        return 0
    earlier_names = record.outputs
    record.begin(flags, names)
    removed = 0
    for name in earlier_names - set(names):
        if (record.folder / name).exists():
            (record.folder / name).unlink()
            removed += 1
        listing_of(record.folder, name).unlink(missing_ok=True)
    return removed


def _left_out_when_read(jobs: Iterable[PackJob], report: PackReport) -> Iterator[LeftOut]:
    """Yield the rows that were left out when their files were read, in the order of the shards."""
    for job, shard in zip(jobs, report.shards, strict=True):
        if shard.left_out:
            yield from read_left_out(job.listing)


def _list_left_out(
    path: Path, planner: PackPlanner, jobs: Iterable[PackJob], report: PackReport
) -> str:
    """Write all rows that were left out, one per line, and add examples.

    Returns the path of the file, "" if no row was left out.
    """
    if not report.left_out:
        path.unlink(missing_ok=True)
        return ""
    names = [named for named, _ in report.tables]
    with atomic_file(path) as file, open(file, "wb", closefd=False) as stream:
        stream.writelines(_line(names, row) for row in planner.plan.left_out.all())
        for row in _left_out_when_read(jobs, report):
            add_example(report.examples, row)
            stream.write(_line(names, row))
    return str(path)


def _line(names: Sequence[str], row: LeftOut) -> bytes:
    facts = {"table": names[row.source], **row._asdict()}
    del facts["source"]
    return json.dumps(facts).encode() + b"\n"
