"""Repair one shard: read its members, form samples, and write those that the plan keeps."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.pieces.file_copy import copy_file, link_file
from wdsflow.pieces.pieces import END, piece_length
from wdsflow.pieces.writer import write_pieces
from wdsflow.records.run_outputs import ShardJob
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import seekable
from wdsflow.shards.tar.members import Member

from .borders import UNMOVED, Borders
from .regroup import RegroupedSample
from .repair_plan import RepairPlan
from .repair_report import ShardRepair
from .repaired_members import RepairedMember, repaired_members
from .sample_fixer import SampleFixer
from .shard_samples import read_samples


@dataclass(frozen=True)
class RepairJob(ShardJob):
    """One shard to repair.

    Attributes:
        write: a file at ``target`` is replaced; otherwise nothing is written.
        link: a shard that does not change becomes a second name of the same file, where the file
            system can do that.
        moved: members that its neighbours give or take.
    """

    write: bool = True
    link: bool = False
    moved: Borders = UNMOVED


def repair_shard(plan: RepairPlan, job: RepairJob, report: ShardRepair, stop: Event) -> None:
    """Write a valid shard and count every member of the old one in ``report``.

    A shard that does not change is copied byte for byte. ``stop`` ends the work. Raises OSError if
    the shard cannot be read, or the output cannot be written.
    """
    with ExitStack() as stack:
        folder = job.target.parent if job.write else Path(tempfile.gettempdir())
        source, damage = stack.enter_context(
            seekable(job.url, folder, allow_pipe=job.allow_pipe, here=False)
        )
        if damage:
            report.lost.append(damage)
        shard = read_samples(stack, source, job.moved, plan, report)
        fixer = SampleFixer(shard.source, plan, report)
        samples = _until_stopped(shard.regrouped.samples, stop)
        output = repaired_members(samples, fixer, report)
        same: list[RepairedMember] = []
        if shard.is_valid_tar:
            # Mostly nothing changes: until something does, the members to write are only collected.
            same, is_same = _unchanged(output, shard.members)
            if is_same and same:
                _copy(shard.source, job, report)
                return
        _write(chain(same, output), shard.source, job, report)


def _until_stopped(samples: Iterable[RegroupedSample], stop: Event) -> Iterator[RegroupedSample]:
    """Yield samples. Raises InterruptedError when ``stop`` is set."""
    for sample in samples:
        if stop.is_set():
            raise InterruptedError("given up")
        yield sample


def _unchanged(
    output: Iterator[RepairedMember], members: list[Member]
) -> tuple[list[RepairedMember], bool]:
    """Return the new members up to the first that differs, and whether none does.

    The comparison is with the members of the input.
    """
    same: list[RepairedMember] = []
    for new in output:
        index = len(same)
        same.append(new)
        if index >= len(members) or not new.is_like(members[index]):
            return same, False
    return same, len(same) == len(members)


def _copy(source: Source, job: RepairJob, report: ShardRepair) -> None:
    report.bytes = source.length or 0
    report.unchanged = "copied"
    if job.write and job.link and link_file(job.target, job.url):
        report.unchanged = "linked"
    elif job.write:
        copy_file(job.target, source)
    report.output = str(job.target)


def _write(
    output: Iterator[RepairedMember], source: Source, job: RepairJob, report: ShardRepair
) -> None:
    first = next(output, None)
    if first is None:
        return
    pieces = (piece for member in chain([first], output) for piece in member.pieces())
    if job.write:
        report.bytes = write_pieces(job.target, source, pieces)
    else:
        report.bytes = sum(map(piece_length, chain(pieces, [END])))
    report.output = str(job.target)
