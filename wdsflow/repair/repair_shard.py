"""Repair one shard: read what can be read, write a valid one."""

import errno
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.pieces import new_members
from wdsflow.pieces.pieces import END, length
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Piece, Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk

from .regroup import Borders, first_members, plan
from .repair_report import ShardRepair
from .sample_fixer import Contents, Edits, Field, SampleFixer

_DAMAGE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
}
_CANNOT_READ = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)


@dataclass(frozen=True)
class Job:
    """One shard to repair. Without ``write`` nothing is written; with it a file at ``target`` is replaced."""

    url: str
    target: Path
    write: bool
    allow_pipe: bool
    moved: Borders


def repair_shard(edits: Edits, job: Job, stop: Event) -> ShardRepair:
    """Write a valid shard and account for every member of the old one.

    What cannot be read is reported in ``lost``. ``stop`` is set when another shard failed: then it gives up. Raises OSError if the output cannot be written.
    """
    report = ShardRepair(job.url)
    try:
        report.inputs = inputs_of(job)
        with ExitStack() as stack:
            folder = job.target.parent if job.write else Path(tempfile.gettempdir())
            opened = seekable(job.url, folder, allow_pipe=job.allow_pipe, here=False)
            source, damage = stack.enter_context(opened)
            report.lost += [damage] if damage else []
            contents = Contents(source)
            members, archives = read_members(source, report)
            meet_halves(stack, job.moved, contents, members, archives, report)
            _repair(contents, (members, archives), job, edits, report, stop)
    except OSError as error:
        if not isinstance(error, SourceError) and error.errno not in _CANNOT_READ:
            raise
        report = ShardRepair(job.url, lost=[*report.lost, str(error)])
    if not report.output and job.write and not report.lost:
        job.target.unlink(missing_ok=True)  # the output of an earlier run would pass for this one's
    report.check()
    return report


def inputs_of(job: Job) -> list[dict[str, object]]:
    """Return what returns whether the shard, and the next one if members come from it, are what they were.

    Raises SourceError.
    """
    return [input_identity(url) for url in (job.url, *(job.moved.tail or ())[:1])] if job.write else []


def meet_halves(
    stack: ExitStack,
    moved: Borders,
    contents: Contents,
    members: list[Member],
    archives: list[int],
    report: ShardRepair,
) -> None:
    """Bring the halves of samples together that were cut in two at the borders of this shard."""
    if moved.skip:
        del members[: moved.skip], archives[: moved.skip]
        report.dropped["moved to the shard before"] += moved.skip
    if moved.tail is not None:
        following = stack.enter_context(open_source(moved.tail[0]))
        halves = first_members(following, moved.tail[1])
        for member in halves:
            contents.adopt(member, following)
        members += halves
        archives += [0] * len(halves)
        report.members += len(halves)
        report.fixed["members taken from the next shard"] += len(halves)


def _repair(
    contents: Contents,
    found: tuple[list[Member], list[int]],
    job: Job,
    edits: Edits,
    report: ShardRepair,
    stop: Event,
) -> None:
    planned = plan(*found, contents.link_target)
    fixer = SampleFixer(contents, edits)

    def pieces() -> Iterator[Piece]:
        for sample in planned.samples:
            if stop.is_set():
                raise InterruptedError("given up")
            fields = fixer.fix(sample)
            report.samples_written += bool(fields)
            for part in fields:
                name = f"{sample.key}.{part.name}"
                report.written += 1
                if part.data is not None or part.member is None:
                    yield new_members.member(name, part.data or b"")
                else:
                    yield from contents.pieces(part.member, name)
        if job.write and inputs_of(job) != report.inputs:
            raise SourceChangedError

    made = pieces()
    first = next(made, None)
    if first is not None and job.write:
        report.bytes = write_pieces(job.target, contents.source, chain([first], made))
    elif first is not None:
        report.bytes = sum(map(length, chain([first], made, [END])))
    report.output = str(job.target) if report.samples_written else None
    report.samples, report.samples_dropped = len(planned.samples), fixer.dropped_samples
    report.dropped += planned.dropped + fixer.dropped
    report.fixed += planned.fixed + fixer.fixed
    report.made, report.missed, report.applied = fixer.made, fixer.missed, fixer.applied


def read_members(source: Source, report: ShardRepair) -> tuple[list[Member], list[int]]:
    """List what can be read whole, and number the archives that follow each other in the file."""
    members: list[Member] = []
    archives: list[int] = []
    archive = end = 0
    trusted = sys.maxsize if source.fault is None else source.fault.trusted
    walk = Walk(source)
    for batch in walk:
        for member in batch.members:
            if member.data + member.size > trusted:
                continue
            archive += batch.beyond and member.header != end
            end = member.end
            members.append(member)
            archives.append(archive)
    report.members = len(members)
    for name, text in _DAMAGE.items():
        seen = walk.seen.get(name)
        if seen is not None:
            more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
            what = seen.name or seen.detail
            report.lost.append(f"at byte {seen.offset:,} {text}{f': {what}' if what not in ('', text) else ''}{more}")
    if walk.zeros.count:
        report.lost.append(f"at byte {walk.zeros.offset:,} {walk.zeros.detail}")
    stop = walk.stop
    if source.fault is not None:
        report.lost.append(str(source.fault))
    elif stop is not None and (
        stop.kind == "unreadable" or (stop.kind == "error" and not walk.seen.keys() & {*_DAMAGE, "tar.no-padding"})
    ):
        report.lost.append(f"at byte {stop.offset:,}: {stop.detail}")
    if source.cut and walk.ended:
        report.fixed["compressed stream cut after the end mark"] += 1  # nothing is lost by that
    elif source.cut and not report.lost:
        report.lost.append(f"after byte {source.length or 0:,} of the tar: {source.damage}")
    return members, archives


class Preview:
    """The samples of one shard after ``repair`` without options. Use as a context manager.

    Raises SourceError if the shard cannot be read; ValueError if it can only be read from front to back.
    """

    def __init__(self, url: str, moved: Borders, *, allow_pipe: bool = False) -> None:
        self._stack = ExitStack()
        self._report = ShardRepair(url)
        with self._stack:
            source = self._stack.enter_context(open_source(url, allow_pipe=allow_pipe))
            if source.compression is not None or not source.random or source.length is None:
                raise ValueError(f"{url} can only be read from front to back")
            self._contents = Contents(source)
            members, archives = read_members(source, self._report)
            meet_halves(self._stack, moved, self._contents, members, archives, self._report)
            planned = plan(members, archives, self._contents.link_target)
            self._samples, self.dropped, self.fixed = planned.samples, planned.dropped, planned.fixed
            self._stack = self._stack.pop_all()

    def __enter__(self) -> "Preview":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def members(self) -> Iterator[tuple[str, Field, int]]:
        """Yield name, field and size of each member, in order."""
        fixer = SampleFixer(self._contents, Edits())
        for sample in self._samples:
            for field in fixer.fix(sample):
                yield f"{sample.key}.{field.name}", field, fixer.size(field)

    def read(self, field: Field, start: int, size: int) -> bytes:
        """Return a part of a field's contents. Raises OSError."""
        assert field.member is not None  # without options no contents are created
        return self._contents.part(field.member, start, size)
