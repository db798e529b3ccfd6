"""The members of a damaged tar that are readable whole, and what is lost."""

import sys
from dataclasses import dataclass, field

from wdsflow.shards.samples.tar_damage import LOST_MEMBERS
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.damaged_times import with_damaged_times
from wdsflow.shards.tar.members import Member, split_as_webdataset
from wdsflow.shards.tar.walk import Walk

from .repair_report import ShardRepair

# Traits of a tar that a repair need not change.
_HARMLESS = frozenset({"tar.huge-member"})


@dataclass
class ReadableMembers:
    """The members of a tar that are readable whole.

    Attributes:
        members: in the order of the tar.
        archives: for each member, the number of its archive: after ``cat a.tar b.tar`` one file
            holds two.
        is_intact: all readers read the tar to its end.
    """

    members: list[Member] = field(default_factory=list)
    archives: list[int] = field(default_factory=list)
    is_intact: bool = False


def read_members(source: Source, report: ShardRepair) -> ReadableMembers:
    """List the members that are completely readable, and number concatenated archives."""
    reader = _MemberReader(source)
    walk = Walk(source)
    for batch in walk:
        members = batch.members
        if batch.gap_before == "damage" and source.is_seekable:
            members = reader.recover(members) + members
        for member in members:
            reader.add(member, beyond=batch.is_past_stop)
    # No member follows the damage.
    if source.is_seekable and walk.stop is not None and walk.stop.kind == "silent":
        reader.add_last()
    shard = reader.shard
    if reader.recovered:
        report.fixed["damaged times in headers"] += reader.recovered
    report.members = len(shard.members)
    # Some readers ignore global headers, which may change the names and sizes after them.
    has_faults = walk.seen.keys() - _HARMLESS or walk.global_records
    shard.is_intact = walk.stop is not None and walk.stop.kind == "end" and not has_faults
    _note_damage(walk, source, report, repaired=reader.gaps)
    return shard


class _MemberReader:
    """Collects members, and recovers those with damaged headers.

    Attributes:
        recovered: how many members were recovered; ``gaps``: in how many gaps between others.
    """

    def __init__(self, source: Source) -> None:
        self.shard = ReadableMembers()
        self.recovered = 0
        self.gaps = 0
        self._source = source
        # After that byte, the contents are not those of the shard.
        self._trusted = sys.maxsize if source.fault is None else source.fault.trusted
        # Of the last member.
        self._archive = 0
        self._end = 0

    def add(self, member: Member, *, beyond: bool) -> None:
        """Add a member. ``beyond``: it follows the end of an archive."""
        if member.data + member.size > self._trusted:
            return
        self._archive += beyond and member.header != self._end
        self._end = member.end
        self.shard.members.append(member)
        self.shard.archives.append(self._archive)

    def recover(self, after: list[Member]) -> list[Member]:
        """Return the members between the last one and those ``after`` the damage."""
        return self._count(_recovered(self._source, self.shard.members, self._end, after))

    def add_last(self) -> None:
        """Add the members after the last one, at the end of the tar."""
        members = _recovered(self._source, self.shard.members, self._end, [])
        trusted = [member for member in members if member.end <= self._trusted]
        self.shard.members += self._count(trusted)
        self.shard.archives += [self._archive] * len(trusted)

    def _count(self, members: list[Member]) -> list[Member]:
        self.recovered += len(members)
        self.gaps += bool(members)
        return members


def _recovered(
    source: Source, before: list[Member], start: int, after: list[Member]
) -> list[Member]:
    """Return the members between others whose headers are damaged in their times only.

    Empty if that is not certain.

    Their names have to be those of further fields of a sample next to the damage, and such fields
    to occur elsewhere: a byte of a name may be damaged as well.
    """
    members = with_damaged_times(source.read_at, start, after[0].header if after else None)
    neighbours = {split_as_webdataset(member.name) for member in (*before[-1:], *after[:1])}
    keys = {name[0] for name in neighbours if name is not None}
    all_names = [split_as_webdataset(member.name) for member in (*before, *after)]
    fields = {name[1] for name in all_names if name is not None}
    for member in members:
        name = split_as_webdataset(member.name)
        if name is None or name in neighbours or name[0] not in keys or name[1] not in fields:
            return []
    return members


def _note_damage(walk: Walk, source: Source, report: ShardRepair, *, repaired: int) -> None:
    """Note what cannot be read. ``repaired``: gaps with damaged headers that were recovered."""
    for name, text in LOST_MEMBERS.items():
        seen = walk.seen.get(name)
        if seen is None or (name == "tar.bad-header" and seen.count == repaired):
            continue
        more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
        detail = seen.name or seen.detail
        named = f": {detail}" if detail not in ("", text) else ""
        report.lost.append(f"at byte {seen.offset:,} {text}{named}{more}")
    if walk.zeros.count:
        report.lost.append(f"at byte {walk.zeros.offset:,} {walk.zeros.detail}")
    if source.fault is not None:
        report.lost.append(str(source.fault))
    else:
        _note_stop(walk, report)
    if source.is_truncated and walk.ended:
        # No data is lost.
        report.fixed["compressed stream cut after the end mark"] += 1
    elif source.is_truncated and not report.lost:
        report.lost.append(f"after byte {source.length or 0:,} of the tar: {source.damage}")


def _note_stop(walk: Walk, report: ShardRepair) -> None:
    """Note why readers stop before the end of the file, unless that is explained."""
    stop = walk.stop
    if stop is None:
        return
    # Damage that was named, and missing padding, explain why readers stop.
    is_explained = not walk.seen.keys().isdisjoint({*LOST_MEMBERS, "tar.no-padding"})
    if stop.kind == "unreadable" or (stop.kind == "error" and not is_explained):
        report.lost.append(f"at byte {stop.offset:,}: {stop.detail}")
