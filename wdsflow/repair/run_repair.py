"""Turn shards of which readers lose samples into shards that they read completely."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.refusals import output_paths
from wdsflow.records.report import write_one, write_shards
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.caption_field import parse_caption_field
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.thread_jobs import run_in_threads
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords

from .regroup import UNMOVED, borders
from .repair_options import RepairOptions
from .repair_report import RepairReport, ShardRepair
from .repair_shard import Edits, Job, repair_shard

_CODE = 3  # version of the result of a repair
_REASONS = {"code": "another wdsflow repaired it", "moved": "other members move at its borders"}
_FIELD = re.compile(r"[^/\s.][^/\s]*")


@keywords(RepairOptions)
def repair_shards(urls: str | Iterable[str], out: str | os.PathLike[str], options: RepairOptions) -> RepairReport:
    """Write a valid shard for each shard into the folder ``out``, with ``sizes.json`` and ``__len__`` next to them.

    Members of one sample are brought together, even across the border of two shards. Junk is dropped, names are made
    safe, duplicates are merged, and members that follow damage are kept. Contents are copied byte for byte. The inputs
    never change. The same call resumes an interrupted repair: finished shards that have not changed are kept.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        options: each is a keyword argument.

    Raises:
        ValueError: arguments are invalid, or urls match nothing.
        OtherOptions, Busy: ``out`` holds shards that were repaired with other options; another run works there.
        FileExistsError: an output exists that no repair wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    with working_folder(out, dry_run=options.dry_run) as folder:
        return _repair(urls, folder, options).naming(out, folder)


def _repair(urls: str | Iterable[str], folder: Path, options: RepairOptions) -> RepairReport:
    caption, jobs, begin = options.caption, options.jobs, options.begin
    edits = _edits(caption, options.rename or {}, options.drop_fields, drop_bad=options.drop_bad)
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    found = expand_existing(urls, allow_pipe=options.allow_pipe)
    work = list(_jobs(found, folder, write=not options.dry_run, allow_pipe=options.allow_pipe))
    report, repair = RepairReport([], options.dry_run, edits.options()), partial(repair_shard, edits)
    if options.dry_run:
        done = dict[Job, tuple[object, ShardRepair]]()
        run_in_threads(work, partial(write_one, ShardRepair, repair, _made_from), done.__setitem__, jobs, begin)
        report.shards += (done[job][1] for job in work)
        return report
    with OutputRecord(folder, "repair", "repaired", ShardRepair, _REASONS) as record:
        write_shards(
            record,
            _flags(caption, edits),
            work,
            repair,
            _made_from,
            report,
            inputs=found,
            restart=options.restart,
            jobs=jobs,
            begin=begin,
        )
    return report


def _edits(caption: str | None, rename: Mapping[str, str], drop_fields: Iterable[str], *, drop_bad: bool) -> Edits:
    return Edits(
        parse_caption_field(caption) if caption else None,
        tuple((_field(old), _field(new)) for old, new in rename.items()),
        frozenset(map(_field, drop_fields)),
        drop_bad,
    )


def _jobs(urls: Sequence[Shard], folder: Path, *, write: bool, allow_pipe: bool) -> Iterator[Job]:
    paths, moved = output_paths(urls, folder), borders(urls)
    for place, (url, target) in enumerate(zip(urls, paths, strict=True)):
        yield Job(url, target, allow_pipe, write, moved.get(place, UNMOVED))


def _made_from(job: Job) -> dict[str, object]:
    """Return what determines the output of a shard: itself, and the next one if members come from it. Raises SourceError."""
    if not job.write:
        return {}
    inputs = [input_identity(url) for url in (job.url, *(job.moved.tail or ())[:1])]
    moved = [job.moved.skip, job.moved.tail and job.moved.tail[1]]
    return {"code": _CODE, "url": job.url, "moved": moved, "inputs": inputs}


def _flags(caption: str | None, edits: Edits) -> dict[str, object]:
    """Return the options that determine the outcome, as on the command line."""
    renamed = [f"{old}={new}" for old, new in edits.rename]
    dropped = sorted(edits.drop_fields)
    return {"--caption": caption, "--rename": renamed, "--drop-field": dropped, "--drop-bad": edits.drop_bad}


def _field(name: str) -> str:
    if not _FIELD.fullmatch(name):
        raise ValueError(f"{name!r} is not a field name")
    return name.lower()
