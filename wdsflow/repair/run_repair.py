"""Turn shards of which readers lose samples into shards that they read completely."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from wdsflow.records.refusals import output_paths
from wdsflow.records.run_outputs import write_one, write_shards
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.thread_jobs import run_in_threads
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords

from .borders import UNMOVED, moves_across_borders
from .repair_options import RepairOptions
from .repair_record import RepairRecord
from .repair_report import RepairReport, ShardRepair
from .repair_shard import RepairJob, repair_shard

# Version of the result of a repair.
_CODE = 4


@keywords(RepairOptions)
def repair_shards(
    urls: str | Iterable[str], out: str | os.PathLike[str], options: RepairOptions
) -> RepairReport:
    """Write a valid shard for each shard into the folder ``out``.

    Writes ``sizes.json`` and ``__len__`` next to them.

    Members of one sample are brought together, even across the border of two shards. Junk is
    dropped, names are made safe, duplicates are merged, and members that follow damage are kept.
    Contents are copied byte for byte. The inputs never change. The same call resumes an interrupted
    repair: finished shards that have not changed are kept.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        options: each is a keyword argument.

    Raises:
        ValueError: arguments are invalid, or urls match nothing.
        OtherOptions, Busy: ``out`` holds shards that were repaired with other options; another run
            works there.
        FileExistsError: an output exists that no repair wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    with working_folder(out, dry_run=options.dry_run) as folder:
        return _repair(urls, folder, options).naming(out, folder)


def _repair(urls: str | Iterable[str], folder: Path, options: RepairOptions) -> RepairReport:
    plan = options.chosen_plan()
    if options.jobs < 1:
        raise ValueError("jobs must be at least 1")
    shards = expand_existing(urls, allow_pipe=options.allow_pipe)
    work = list(_jobs(shards, folder, options))
    report = RepairReport([], options.dry_run, plan=plan)
    repair = partial(repair_shard, plan)
    if options.dry_run:
        results = dict[RepairJob, tuple[object, ShardRepair]]()
        write = partial(write_one, ShardRepair, repair, _made_from)
        run_in_threads(work, write, results.__setitem__, options.jobs, options.begin)
        report.shards += (results[job][1] for job in work)
        return report
    with RepairRecord(folder, plan) as record:
        write_shards(
            record,
            plan.to_dict(),
            work,
            repair,
            _made_from,
            report,
            inputs=shards,
            restart=options.restart,
            jobs=options.jobs,
            begin=options.begin,
        )
    return report


def _jobs(urls: Sequence[Shard], folder: Path, options: RepairOptions) -> Iterator[RepairJob]:
    paths = output_paths(urls, folder)
    moved = moves_across_borders(urls)
    for index, url in enumerate(urls):
        yield RepairJob(
            url,
            paths[index],
            allow_pipe=options.allow_pipe,
            write=not options.dry_run,
            link=options.link,
            moved=moved.get(index, UNMOVED),
        )


def _made_from(job: RepairJob) -> dict[str, object]:
    """Return what determines the output of a shard.

    That is the shard itself, and the next one if members come from it. Raises SourceError.
    """
    if not job.write:
        return {}
    inputs = [input_identity(job.url)]
    tail_members = None
    if job.moved.tail is not None:
        next_url, tail_members = job.moved.tail
        inputs.append(input_identity(next_url))
    moved = [job.moved.skip, tail_members]
    return {"code": _CODE, "url": job.url, "moved": moved, "inputs": inputs}
