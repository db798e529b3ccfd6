"""Repair one shard: read its members, form samples, and write those that the plan keeps."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.pieces.pieces import END, length
from wdsflow.pieces.pieces import member as new_member
from wdsflow.pieces.pieces import moved as moved_member
from wdsflow.pieces.writer import write_pieces
from wdsflow.records.report import ShardJob
from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.source.opening import seekable

from .borders import UNMOVED, Borders
from .regroup import RegroupedShard
from .repair_plan import RepairPlan
from .repair_report import ShardRepair
from .sample_fixer import SampleFixer
from .shard_samples import read_samples


@dataclass(frozen=True)
class Job(ShardJob):
    """One shard to repair. Without ``write`` nothing is written; with it a file at ``target`` is replaced."""

    write: bool = True
    moved: Borders = UNMOVED


def repair_shard(plan: RepairPlan, job: Job, report: ShardRepair, stop: Event) -> None:
    """Write a valid shard and count every member of the old one in ``report``.

    ``stop`` ends the work. Raises OSError if the shard cannot be read, or the output cannot be written.
    """
    with ExitStack() as stack:
        folder = job.target.parent if job.write else Path(tempfile.gettempdir())
        source, damage = stack.enter_context(seekable(job.url, folder, allow_pipe=job.allow_pipe, here=False))
        report.lost += [damage] if damage else []
        source, shard = read_samples(stack, source, job.moved, plan, report)
        _write(source, shard, job, SampleFixer(source, plan, report), report, stop)


def _write(
    source: Source, shard: RegroupedShard, job: Job, fixer: SampleFixer, report: ShardRepair, stop: Event
) -> None:
    def pieces() -> Iterator[Piece]:
        for sample in shard.samples:
            if stop.is_set():
                raise InterruptedError("given up")
            fields = fixer.fix(sample)
            report.samples_written += bool(fields)
            report.written += len(fields)
            for part in fields:
                name = f"{sample.key}.{part.name}"
                if part.data is not None or part.member is None:
                    yield new_member(name, part.data or b"")
                else:
                    yield from moved_member(name, part.member.data, part.member.size)

    output = pieces()
    first = next(output, None)
    if first is not None and job.write:
        report.bytes = write_pieces(job.target, source, chain([first], output))
    elif first is not None:
        report.bytes = sum(map(length, chain([first], output, [END])))
    report.output = str(job.target) if report.samples_written else None
