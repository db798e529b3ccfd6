"""Turn shards that readers lose samples of into shards that they read whole."""

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from wdsflow.shards.caption_field import parse_caption_field
from wdsflow.shards.output_names import output_names
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.source.pipe import end_commands
from wdsflow.shards.urls import expand

from .counts import remove_counts, write_counts
from .repair_record import Record
from .repair_report import RepairReport, ShardRepair
from .repair_shard import Job, repair_shard
from .sample_fixer import Edits
from .split_samples import second_halves

_FILE_SCHEME = re.compile(r"^file:(//(localhost)?(?=/))?")
Begin = Callable[[int], Callable[[object], object] | None]

_FIELD = re.compile(r"[^/\s.][^/\s]*")


def repair_shards(
    urls: str | Iterable[str],
    out: str | os.PathLike[str],
    *,
    caption: str | None = None,
    rename: dict[str, str] | None = None,
    drop_fields: Iterable[str] = (),
    drop_bad: bool = False,
    dry_run: bool = False,
    force: bool = False,
    restart: bool = False,
    jobs: int = 1,
    allow_pipe: bool = False,
    begin: Begin | None = None,
) -> RepairReport:
    """Write a valid shard for each shard into the folder ``out``, with ``sizes.json`` and ``__len__`` next to them.

    Members of one sample are brought together, across the border of two shards as well. Junk is dropped, names are made
    safe, duplicates are merged, and members that follow damage are kept. Contents are copied byte for byte. The inputs
    never change. The same call resumes an interrupted repair: finished shards that have not changed are kept.

    Args:
        urls: shards, as for ``check``.
        out: a folder; it is created if it does not exist.
        caption: ``json:FIELD[;OTHER]``: write ``KEY.txt`` from that field of ``KEY.json`` if a sample has no caption.
        rename: fields to rename, old to new; a field that exists is not overwritten.
        drop_fields: fields to leave out.
        drop_bad: leave out samples that OpenCLIP would not train on: no image, or one that does not decode; no
            caption, or one that is empty or not UTF-8; json that does not parse.
        dry_run: write nothing; report what would be done.
        force: repair all shards, and replace outputs that exist, whatever wrote them.
        restart: remove first what earlier repairs wrote into ``out``.
        jobs: shards repaired at a time.
        allow_pipe: run ``pipe:`` urls in a shell.
        begin: called with the number of shards; what it returns is called after each of them.

    Raises:
        ValueError: arguments are invalid, or urls match nothing.
        OtherRepair: ``out`` holds shards that were repaired with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no repair wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    edits = _edits(caption, rename or {}, drop_fields, drop_bad=drop_bad)
    folder = local_folder(out)
    found = expand([urls] if isinstance(urls, str) else urls).urls
    targets = [folder / name for name in output_names(found)]
    _refuse_inputs(found, targets)
    work = _jobs(found, targets, Job("", folder, not dry_run, allow_pipe))
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    if dry_run:
        return RepairReport(_tried(work, edits, jobs, begin), dry_run, options=edits.options())
    with Record(folder) as record:
        if restart:
            _refuse_inputs(found, [folder / name for name in record.outputs])
            record.clear()
        _refuse_existing(target for target in targets if not force and target.name not in record.outputs)
        record.begin(_as_flags(caption, edits), [target.name for target in targets], force=force)
        return _written(work, edits, jobs, begin, record, again=force)


def _tried(work: list[Job], edits: Edits, jobs: int, begin: Begin | None) -> list[ShardRepair]:
    done: dict[Path, ShardRepair] = {}
    _run(work, edits, jobs, begin, lambda job, shard: done.update({job.target: shard}))
    return [done[job.target] for job in work]


def _written(
    work: list[Job], edits: Edits, jobs: int, begin: Begin | None, record: Record, *, again: bool
) -> RepairReport:
    """Repair what is not done yet, or all ``again``; what is finished is recorded, also where an error ends it."""
    report = RepairReport([], stale_removed=record.stale, options=edits.options())
    done: dict[Path, ShardRepair] = {}
    todo = []
    for job in work:
        before, reason = (None, "") if again else record.finished(job)
        if before is not None:
            done[job.target] = before
            continue
        todo.append(job)
        report.changed += [f"{job.url}: {reason}"] if reason else []
    report.resumed = len(done)

    def note(job: Job, shard: ShardRepair) -> None:
        done[job.target] = shard
        record.add(job, shard)

    try:
        _run(todo, edits, jobs, begin, note)
        record.finish([job.target.name for job in work])
    except BaseException:
        with suppress(OSError):  # the first error counts
            _count(record, done.values())
        raise
    _count(record, done.values())
    report.shards += [done[job.target] for job in work]
    return report


def _count(record: Record, shards: Iterable[ShardRepair]) -> None:
    """Write how many samples there are; where there is no shard, leave nothing that a reader or a repair would take for one."""
    if not any((record.folder / name).exists() for name in record.outputs):
        record.clear()
        remove_counts(record.folder)
        return
    write_counts(record.folder, {Path(shard.output).name: shard.samples_written for shard in shards if shard.output})


def _edits(caption: str | None, rename: dict[str, str], drop_fields: Iterable[str], *, drop_bad: bool) -> Edits:
    return Edits(
        parse_caption_field(caption) if caption else None,
        tuple((_field(old), _field(new)) for old, new in rename.items()),
        frozenset(_field(name) for name in drop_fields),
        drop_bad,
    )


def _as_flags(caption: str | None, edits: Edits) -> dict[str, Any]:
    """Return what decides the outcome, as the command line spells it."""
    renamed = [f"{old}={new}" for old, new in edits.rename]
    dropped = sorted(edits.drop_fields)
    return {"--caption": caption, "--rename": renamed, "--drop-field": dropped, "--drop-bad": edits.drop_bad}


def _jobs(urls: Sequence[str], targets: Sequence[Path], common: Job) -> list[Job]:
    halves = second_halves(urls)
    return [
        replace(
            common,
            url=url,
            target=target,
            skip=halves.get(index, 0),
            tail=(urls[index + 1], halves[index + 1]) if index + 1 in halves else None,
        )
        for index, (url, target) in enumerate(zip(urls, targets, strict=True))
    ]


def _run(
    work: list[Job], edits: Edits, jobs: int, begin: Begin | None, note: Callable[[Job, ShardRepair], object]
) -> None:
    """Call ``note`` with each shard, also where an error ends the run. Threads suffice: most time goes into copying."""
    step = begin(len(work)) if begin else None
    threads: list[threading.Thread] = []
    remember = lambda: threads.append(threading.current_thread())  # noqa: E731
    with ThreadPoolExecutor(min(jobs, len(work)) or 1, "wdsflow-repair", remember) as pool:
        futures: dict[Future[ShardRepair], Job] = {}
        try:
            futures |= {pool.submit(repair_shard, job, edits): job for job in work}
            while futures:
                # Ctrl-C in the moment before a wait is noticed after it: no wait is long.
                for future in wait(futures, timeout=0.5, return_when=FIRST_COMPLETED).done:
                    note(futures.pop(future), future.result())
                    if step:
                        step(future)
        except BaseException:
            for job in work:
                job.stop.set()
            for thread in threads:  # a command may wait for its storage
                end_commands(thread)
            pool.shutdown(wait=True, cancel_futures=True)
            for future, job in futures.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    note(job, future.result())
            raise


def _refuse_inputs(urls: Sequence[str], targets: Iterable[Path]) -> None:
    paths = (_FILE_SCHEME.sub("", url) for url in urls)
    inputs = {os.path.realpath(path) for path in paths if "://" not in path and not path.startswith("pipe:")}
    for target in targets:
        if os.path.realpath(target) in inputs:
            raise FileExistsError(f"{target} is an input: choose another folder for the output")


def _refuse_existing(targets: Iterable[Path]) -> None:
    for target in targets:
        if target.exists():
            raise FileExistsError(
                f"{target} exists already, and no repair wrote it: choose another folder, or replace it with --force"
            )


def _field(name: str) -> str:
    if not _FIELD.fullmatch(name):
        raise ValueError(f"{name!r} is not a field name")
    return name.lower()
