"""Repair one shard: read its readable parts, fix the members of each sample, write a valid shard."""

import io
import posixpath
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import NamedTuple

from wdsflow.pieces.pieces import END, address, length
from wdsflow.pieces.pieces import member as new_member
from wdsflow.pieces.pieces import moved as moved_member
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.readers.wanted_fields import CAPTION, trouble
from wdsflow.records.report import ShardJob
from wdsflow.shards.caption_field import LARGEST, CaptionField, caption_of
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk

from .regroup import UNMOVED, Borders, RegroupedSample, RepairPlan, first_members, plan
from .repair_report import ShardRepair

_DAMAGE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
}
_CHUNK = 1 << 20
_HEADERS = 64 << 10  # bytes that hold a link's header with its extended headers
_LONGEST = 16 << 20  # bytes of a caption that is checked
_UNPACKED = 256 << 20  # bytes of an unpacked gzipped field


@dataclass(frozen=True)
class Edits:
    """Changes in addition to those for all readers. By default only junk is dropped."""

    caption: CaptionField | None = None
    rename: tuple[tuple[str, str], ...] = ()
    drop_fields: frozenset[str] = frozenset()
    drop_bad: bool = False

    def options(self) -> list[str]:
        """Return the options that name fields, as typed."""
        return [f"--rename {old}={new}" for old, new in self.rename] + [
            f"--drop-field {name}" for name in self.drop_fields
        ]


@dataclass(frozen=True)
class Job(ShardJob):
    """One shard to repair. Without ``write`` nothing is written; with it a file at ``target`` is replaced."""

    write: bool = True
    moved: Borders = UNMOVED


def repair_shard(edits: Edits, job: Job, report: ShardRepair, stop: Event) -> None:
    """Write a valid shard and count every member of the old one in ``report``.

    ``stop`` ends the work. Raises OSError if the shard cannot be read, or the output cannot be written.
    """
    with ExitStack() as stack:
        folder = job.target.parent if job.write else Path(tempfile.gettempdir())
        source, damage = stack.enter_context(seekable(job.url, folder, allow_pipe=job.allow_pipe, here=False))
        report.lost += [damage] if damage else []
        source, planned = _planned(stack, source, job.moved, report)
        _repair(source, planned, job, edits, report, stop)


def _planned(stack: ExitStack, source: Source, moved: Borders, report: ShardRepair) -> tuple[Source, RepairPlan]:
    """Return the samples of a shard, with those that were split at its borders completed, and their source."""
    members, archives = _read_members(source, report)
    if moved.skip:
        del members[: moved.skip], archives[: moved.skip]
        report.dropped["moved to the shard before"] += moved.skip
    if moved.tail is not None:
        sources = [source, stack.enter_context(open_source(moved.tail[0]))]
        halves = first_members(sources[1], moved.tail[1])
        members += [each._replace(data=address(1, each.data), header=address(1, each.header)) for each in halves]
        archives += [0] * len(halves)
        source = JoinedSource(lambda number: nullcontext(sources[number]), lambda _: 2)
        report.members += len(halves)
        report.fixed["members taken from the next shard"] += len(halves)
    planned = plan(members, archives, lambda member: _link_target(source, member))
    report.samples = len(planned.samples)
    report.dropped += planned.dropped
    report.fixed += planned.fixed
    return source, planned


def _repair(source: Source, planned: RepairPlan, job: Job, edits: Edits, report: ShardRepair, stop: Event) -> None:
    fixer = SampleFixer(source, edits, report)

    def pieces() -> Iterator[Piece]:
        for sample in planned.samples:
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

    made = pieces()
    first = next(made, None)
    if first is not None and job.write:
        report.bytes = write_pieces(job.target, source, chain([first], made))
    elif first is not None:
        report.bytes = sum(map(length, chain([first], made, [END])))
    report.output = str(job.target) if report.samples_written else None


def _read_members(source: Source, report: ShardRepair) -> tuple[list[Member], list[int]]:
    """List the members that are readable whole, and number the concatenated archives in the file."""
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
        report.fixed["compressed stream cut after the end mark"] += 1  # no data is lost
    elif source.cut and not report.lost:
        report.lost.append(f"after byte {source.length or 0:,} of the tar: {source.damage}")
    return members, archives


class Field(NamedTuple):
    """One member of a repaired sample."""

    name: str
    member: Member | None  # None: created by the repair
    data: bytes | None = None  # contents, if they differ from the member's


class SampleFixer:
    """Applies edits to the samples of one shard, and counts the outcomes of their members in its report."""

    def __init__(self, source: Source, edits: Edits, report: ShardRepair) -> None:
        self.source, self.edits, self.report = source, edits, report

    def fix(self, sample: RegroupedSample) -> list[Field]:
        """Return the members to write for one sample; none if it is dropped."""
        fields = self._rename(self._without_duplicates(sample))
        if self.edits.caption:
            fields = self._with_caption(fields, self.edits.caption)
        kept = [field for field in fields if field.name not in self.edits.drop_fields]
        for field in fields:
            if field.name in self.edits.drop_fields:
                self.report.applied[f"--drop-field {field.name}"] += 1
                self._drop(field, "dropped field")
        reason = "" if kept else "no members left"
        if kept and self.edits.drop_bad:
            by_name = {field.name: field for field in kept}
            sizes = {name: self.size(field) for name, field in by_name.items()}
            reason = trouble(sizes, lambda name: self.read(by_name[name]))
        if reason:
            self.report.samples_dropped[reason] += 1
            for field in kept:
                self._drop(field, reason)
            return []
        return kept

    def read(self, field: Field) -> bytes:
        """Return the contents of a field."""
        if field.data is not None or field.member is None:
            return field.data or b""
        return contents(self.source, field.member)

    def size(self, field: Field) -> int:
        """Return the size of a field in bytes."""
        return len(field.data) if field.data is not None else field.member.size if field.member else 0

    def _drop(self, field: Field, reason: str) -> None:
        if field.member is None:
            self.report.made -= 1
        else:
            self.report.dropped[reason] += 1

    def _without_duplicates(self, sample: RegroupedSample) -> list[Field]:
        if len({name for name, _ in sample.parts}) == len(sample.parts):
            return [Field(name, member) for name, member in sample.parts]
        first: dict[str, Member] = {}
        for name, member in sample.parts:
            if name not in first:
                first[name] = member
            else:
                same = _are_same(self.source, first[name], member)
                self.report.dropped["duplicate" if same else "duplicate with other contents"] += 1
        return [Field(name, member) for name, member in first.items()]

    def _rename(self, fields: list[Field]) -> list[Field]:
        for old, new in self.edits.rename:
            names = {field.name for field in fields}
            if old in names and new in names:  # it is not overwritten
                self.report.missed[f"{old} not renamed: {new} already exists"] += 1
            elif old in names:
                self.report.applied[f"--rename {old}={new}"] += 1
                fields = [self._renamed(field, new) if field.name == old else field for field in fields]
        return fields

    def _renamed(self, field: Field, new: str) -> Field:
        """Return a field under a new name; a gzipped one that loses its .gz is unpacked."""
        if not field.name.endswith(".gz") or new.endswith(".gz"):
            self.report.fixed["fields renamed"] += 1
            return field._replace(name=new)
        unpacker = zlib.decompressobj(31)
        try:
            data = unpacker.decompress(self.read(field), _UNPACKED)
        except zlib.error:
            data = b""
        if not unpacker.eof:
            self.report.missed["gzipped field that cannot be unpacked"] += 1
            return field
        self.report.fixed["fields unpacked"] += 1
        return Field(new, field.member, data)

    def _with_caption(self, fields: list[Field], wanted: CaptionField) -> list[Field]:
        by_name = {field.name: field for field in fields}
        present, source = by_name.get(CAPTION), by_name.get(wanted.member)
        fault = "" if present is None else self._caption_fault(present)
        if present is not None and not fault:
            return fields
        text = None
        if source is not None and self.size(source) <= LARGEST:
            text = caption_of(self.read(source), wanted.names)
        if text is None:
            self.report.missed["no caption found in json"] += 1
            return fields
        if present is not None:
            self._drop(present, f"{fault} caption replaced")
        self.report.made += 1
        self.report.fixed["captions taken from json"] += 1
        return [*(field for field in fields if field.name != CAPTION), Field(CAPTION, None, text.encode())]

    def _caption_fault(self, caption: Field) -> str:
        if self.size(caption) > _LONGEST:
            return ""
        text = self.read(caption)
        try:
            text.decode()
        except UnicodeDecodeError:
            return "not-UTF-8"
        return "" if text.strip() else "empty"


def contents(source: Source, member: Member, start: int = 0, size: int = sys.maxsize) -> bytes:
    """Return up to ``size`` bytes of a member from ``start`` on. Raises SourceChangedError if the source ends early."""
    return source.exactly(member.data + start, max(0, min(size, member.size - start)))


def _are_same(source: Source, one: Member, other: Member) -> bool:
    """Return whether two members have the same contents."""
    return one is other or (
        one.size == other.size
        and all(
            contents(source, one, start, _CHUNK) == contents(source, other, start, _CHUNK)
            for start in range(0, one.size, _CHUNK)
        )
    )


def _link_target(source: Source, member: Member) -> str | None:
    """Return the name of the member that a link points to; None if it leads out of the archive."""
    stream = io.BytesIO(source.read_at(member.header, min(_HEADERS, member.data - member.header)))
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            info = tar.next()
    except (tarfile.TarError, OSError, ValueError):
        return None
    if info is None or not info.linkname or info.linkname.startswith("/"):
        return None
    return info.linkname if info.islnk() else posixpath.join(posixpath.dirname(member.name), info.linkname)


class Preview:
    """The samples of one shard after ``repair`` without options. Use as a context manager.

    Raises SourceError if the shard cannot be read; ValueError if it cannot seek.
    """

    def __init__(self, url: Shard, moved: Borders, *, allow_pipe: bool = False) -> None:
        report = ShardRepair(url)
        with ExitStack() as stack:
            source = stack.enter_context(open_source(url, allow_pipe=allow_pipe))
            if source.compression is not None or not source.random or source.length is None:
                raise ValueError(f"{url} can only be read from front to back")
            self._source, planned = _planned(stack, source, moved, report)
            self._samples, self.dropped, self.fixed = planned.samples, planned.dropped, planned.fixed
            self._fixer = SampleFixer(self._source, Edits(), report)
            self._stack = stack.pop_all()

    def __enter__(self) -> "Preview":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def members(self) -> Iterator[tuple[str, Field, int]]:
        """Yield name, field and size of each member, in order."""
        for sample in self._samples:
            for field in self._fixer.fix(sample):
                yield f"{sample.key}.{field.name}", field, self._fixer.size(field)

    def read(self, field: Field, start: int, size: int) -> bytes:
        """Return a part of a field's contents. Raises OSError."""
        assert field.member is not None  # without options no contents are created
        return contents(self._source, field.member, start, size)
