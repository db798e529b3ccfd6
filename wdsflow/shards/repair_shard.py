"""Repair one shard: read what there is, write a sound one."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from wdsflow.shards.atomic import create, discard
from wdsflow.shards.contents import Contents
from wdsflow.shards.mend import Edits, Mender
from wdsflow.shards.regroup import plan
from wdsflow.shards.repair_report import ShardRepair
from wdsflow.shards.source import Source, SourceError, open_source
from wdsflow.shards.tar import Member, Walk
from wdsflow.shards.write import ShardWriter, ShortSource

_STEP = 4 << 20
_BOMB_BYTES, _BOMB_RATIO = 1 << 30, 100


@dataclass(frozen=True)
class Job:
    """One shard to repair. Without ``folder`` nothing is written."""

    url: str
    target: Path
    write: bool = True
    force: bool = False
    allow_pipe: bool = False


def repair_shard(job: Job, edits: Edits) -> ShardRepair:
    """Write a sound shard and account for every member of the old one.

    What cannot be read is told in ``lost``. Raises OSError where the output cannot be written.
    """
    report = ShardRepair(job.url)
    try:
        with ExitStack() as stack:
            source = _seekable(stack, job, report)
            members, archives = _members(source, report)
            _repair(Contents(source), members, archives, job, edits, report)
    except (SourceError, ShortSource) as error:
        report = ShardRepair(job.url, lost=[str(error)])
    if not report.output and job.write and job.force and not report.lost:
        job.target.unlink(missing_ok=True)  # the output of an earlier run would pass for this one's
    report.check()
    return report


def _repair(
    contents: Contents, members: list[Member], archives: list[int], job: Job, edits: Edits, report: ShardRepair
) -> None:
    planned = plan(members, archives, contents.link_target)
    mender = Mender(contents, edits)
    writer = ShardWriter(job.target, force=job.force) if job.write else None
    try:
        for sample in planned.samples:
            fields = mender.mend(sample)
            report.samples_written += bool(fields)
            for field in fields:
                name = f"{sample.key}.{field.name}"
                if writer is None:
                    report.bytes += 512 + (field.member.size if field.member else len(field.data))
                elif field.member is None:
                    writer.add_bytes(name, field.data)
                else:
                    contents.copy(field.member, name, writer)
                report.written += 1
        if writer is not None and report.samples_written:
            writer.commit()
            report.bytes = writer.size
    finally:
        if writer is not None:
            writer.abort()
    report.output = str(job.target) if report.samples_written else None
    report.samples, report.samples_dropped = len(planned.samples), mender.lost_samples
    report.dropped += planned.dropped + mender.dropped
    report.mended = planned.mended + mender.mended
    report.made, report.without_caption = mender.made, mender.without_caption


def _members(source: Source, report: ShardRepair) -> tuple[list[Member], list[int]]:
    """List what can be read whole, and number the archives that follow each other in the file."""
    members: list[Member] = []
    archives: list[int] = []
    archive = end = 0
    walk = Walk(source)
    for batch in walk:
        for member in batch.members:
            report.members += 1
            archive += batch.beyond and member.header != end
            end = member.end
            if member.size < 0 or not source.reaches(member.data + (member.size if member.kind == "file" else 0)):
                report.dropped["cut"] += 1
                report.lost.append(f"the contents of {member.name!r} at byte {member.header} are cut")
                continue
            members.append(member)
            archives.append(archive)
    stop = walk.stop
    if stop is not None and stop.kind in ("silent", "error", "unreadable"):
        report.lost.append(f"damaged at byte {stop.offset}: {stop.detail or stop.kind}")
    if source.damage:
        report.lost.append(source.damage)
    return members, archives


def _seekable(stack: ExitStack, job: Job, report: ShardRepair) -> Source:
    """Open a shard for reading in any order; compressed and streamed ones are unpacked beside the output first."""
    source = stack.enter_context(open_source(job.url, allow_pipe=job.allow_pipe))
    if source.compression is None and source.length is not None:
        return source
    folder = job.target.parent if job.write else Path(os.environ.get("TMPDIR", "/tmp"))
    name, file = create(folder / job.target.name)
    stack.callback(discard, name, file)
    at = 0
    while data := source.read_at(at, _STEP):
        at += len(data)
        if at > max(_BOMB_BYTES, _BOMB_RATIO * (source.size or at)):
            raise ShortSource(f"expands to more than {_BOMB_RATIO} times its size: not unpacked further")
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    if source.damage:
        report.lost.append(source.damage)
    return stack.enter_context(open_source(str(name)))
