"""Turn shards that readers lose samples of into shards that they read whole."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.refusals import refuse_inputs
from wdsflow.records.report import run_outputs
from wdsflow.shards.caption_field import parse_caption_field
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords

from .regroup import Borders, borders
from .repair_options import RepairOptions
from .repair_report import RepairReport, ShardRepair
from .repair_shard import Job, inputs_of, repair_shard
from .sample_fixer import Edits

_CODE = 3  # version of the result of a repair
_REASONS = {
    "code": "another wdsflow repaired it",
    "url": "its output was made from {}",
    "moved": "other members move at its borders",
    "inputs": "the input changed",
}
_FIELD = re.compile(r"[^/\s.][^/\s]*")


@keywords(RepairOptions)
def repair_shards(urls: str | Iterable[str], out: str | os.PathLike[str], options: RepairOptions) -> RepairReport:
    """Write a valid shard for each shard into the folder ``out``, with ``sizes.json`` and ``__len__`` next to them.

    Members of one sample are brought together, across the border of two shards as well. Junk is dropped, names are made
    safe, duplicates are merged, and members that follow damage are kept. Contents are copied byte for byte. The inputs
    never change. The same call resumes an interrupted repair: finished shards that have not changed are kept.

    Args:
        urls: shards, as for ``check``.
        out: a folder; it is created if it does not exist.
        options: each is a keyword argument.

    Raises:
        ValueError: arguments are invalid, or urls match nothing.
        OtherOptions: ``out`` holds shards that were repaired with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no repair wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    caption, rename, drop_fields = options.caption, options.rename or {}, options.drop_fields
    jobs, begin, force, restart = options.jobs, options.begin, options.force, options.restart
    edits = _edits(caption, rename, drop_fields, drop_bad=options.drop_bad)
    folder, found = local_folder(out), expand_existing(urls)
    targets = [folder / name for name in output_names(found)]
    refuse_inputs(found, targets)
    work = _jobs(found, targets, write=not options.dry_run, allow_pipe=options.allow_pipe)
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    if options.dry_run:
        return RepairReport(_tried(work, edits, jobs, begin), dry_run=True, options=edits.options())
    flags, report = _as_flags(caption, edits), RepairReport(options=edits.options())
    with OutputRecord(folder, "repair", "repaired", ShardRepair, _REASONS) as record:
        record.begin(flags, [target.name for target in targets], inputs=found, force=force, restart=restart)
        report.stale_removed = record.stale
        todo, write = [(record, job) for job in work], partial(repair_shard, edits)
        report.shards = run_outputs(todo, write, _made_from, report, jobs=jobs, begin=begin, again=force)
        record.finish()
    return report


def _tried(work: list[Job], edits: Edits, jobs: int, begin: Begin | None) -> list[ShardRepair]:
    done: dict[Path, ShardRepair] = {}
    run_in_threads(work, partial(repair_shard, edits), lambda job, shard: done.update({job.target: shard}), jobs, begin)
    return [done[job.target] for job in work]


def _made_from(job: Job, done: ShardRepair | None) -> dict[str, object]:
    """Return what decides the output of a shard: its inputs as they were when it was written, otherwise as they are."""
    inputs = inputs_of(job) if done is None else done.inputs
    moved = [job.moved.skip, job.moved.tail and job.moved.tail[1]]
    return {"code": _CODE, "url": job.url, "moved": moved, "inputs": inputs}


def _edits(caption: str | None, rename: Mapping[str, str], drop_fields: Iterable[str], *, drop_bad: bool) -> Edits:
    return Edits(
        parse_caption_field(caption) if caption else None,
        tuple((_field(old), _field(new)) for old, new in rename.items()),
        frozenset(_field(name) for name in drop_fields),
        drop_bad,
    )


def _as_flags(caption: str | None, edits: Edits) -> dict[str, object]:
    """Return what decides the outcome, as the command line spells it."""
    renamed = [f"{old}={new}" for old, new in edits.rename]
    dropped = sorted(edits.drop_fields)
    return {"--caption": caption, "--rename": renamed, "--drop-field": dropped, "--drop-bad": edits.drop_bad}


def _jobs(urls: Sequence[str], targets: Sequence[Path], *, write: bool, allow_pipe: bool) -> list[Job]:
    moved, pairs = borders(urls), enumerate(zip(urls, targets, strict=True))
    return [Job(url, target, write, allow_pipe, moved.get(place, Borders())) for place, (url, target) in pairs]


def _field(name: str) -> str:
    if not _FIELD.fullmatch(name):
        raise ValueError(f"{name!r} is not a field name")
    return name.lower()
