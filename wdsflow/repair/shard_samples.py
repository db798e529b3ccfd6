"""The samples of one shard: its readable members, regrouped."""

import io
import posixpath
import sys
import tarfile
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field

from wdsflow.images.image_header import HEAD
from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.pieces import address
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.damaged_headers import with_damaged_times
from wdsflow.shards.tar.members import Member, key_of
from wdsflow.shards.tar.walk import Walk

from .borders import Borders, first_members
from .field_contents import MOST_DECODED, decodes, image_field
from .image_names import name_images
from .pairing import pair_names
from .regroup import Contents, RegroupedShard, regroup
from .repair_plan import RepairPlan
from .repair_report import ShardRepair

_DAMAGE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
}
# Traits of a tar that a repair need not change.
_HARMLESS = frozenset({"tar.huge-member"})
_CHUNK = 1 << 20
# In place of the number of an archive.
_OF_NEXT_SHARD = -1
# Bytes that hold a link's header with its extended headers.
_LINK_HEADERS = 64 << 10


@dataclass
class ReadShard:
    """The members of a tar that are readable whole.

    Attributes:
        members: in the order of the tar.
        archives: for each member, the number of its archive: after ``cat a.tar b.tar`` one file holds two.
        is_sound: all readers read the tar to its end.
    """

    members: list[Member] = field(default_factory=list)
    archives: list[int] = field(default_factory=list)
    is_sound: bool = False


@dataclass
class ShardSamples:
    """The samples of a shard.

    Attributes:
        source: of the contents of all members.
        members: of the tar, in order.
        is_valid_tar: if its members need no change, nothing does.
        regrouped: the samples.
    """

    source: Source
    members: list[Member]
    is_valid_tar: bool
    regrouped: RegroupedShard


def read_samples(
    stack: ExitStack, source: Source, borders: Borders, plan: RepairPlan, report: ShardRepair
) -> ShardSamples:
    """Return the samples of a shard, with those that were split at its borders completed.

    The next shard, if members come from it, stays open as long as ``stack``.
    """
    shard = _read_members(source, report)
    members, archives = shard.members, shard.archives
    is_valid_tar = shard.is_sound and not source.unpacked
    if borders.skip:
        del members[: borders.skip], archives[: borders.skip]
        report.dropped["moved to the shard before"] += borders.skip
        is_valid_tar = False
    if borders.tail is not None:
        url, count = borders.tail
        sources = [source, stack.enter_context(open_source(url))]
        for half in first_members(sources[1], count):
            members.append(
                half._replace(data=address(1, half.data), header=address(1, half.header))
            )
            # No reader joins them with the end of this shard for certain.
            archives.append(_OF_NEXT_SHARD)
        source = JoinedSource(lambda number: nullcontext(sources[number]), lambda _: 2)
        report.members += count
        report.fixed["members taken from the next shard"] += count
        is_valid_tar = False
    names = _names(source, members, plan, report)
    regrouped = regroup(members, archives, _contents(source), names)
    report.samples = len(regrouped.samples)
    report.dropped += regrouped.dropped
    report.fixed += regrouped.fixed
    report.renamed_key = regrouped.renamed_key
    return ShardSamples(source, members, is_valid_tar, regrouped)


def _names(
    source: Source, members: list[Member], plan: RepairPlan, report: ShardRepair
) -> list[str]:
    """Return the names of members after the steps of a plan that look at names of the whole shard."""
    names = [member.name for member in members]
    if plan.name_images:

        def field_of(index: int) -> str:
            member = members[index]
            if member.kind != "file":
                return ""
            return image_field(contents(source, member, 0, HEAD))

        named = name_images(names, field_of)
        report.applied["--name-images"] += _differences(names, named)
        names = named
    if plan.pair_names:
        paired = pair_names(names)
        report.applied["--pair-names"] += _differences(names, paired)
        names = paired
    return names


def _differences(names: list[str], others: list[str]) -> int:
    return sum(name != other for name, other in zip(names, others, strict=True))


def _read_members(source: Source, report: ShardRepair) -> ReadShard:
    """List the members that are readable whole, and number the concatenated archives in the file."""
    shard = ReadShard()
    archive = end = 0
    trusted = sys.maxsize if source.fault is None else source.fault.trusted
    walk = Walk(source)
    recovered = gaps = 0
    for batch in walk:
        members = batch.members
        if batch.behind == "damage" and source.random:
            more = _recovered(source, shard.members, end, members)
            recovered, gaps = recovered + len(more), gaps + bool(more)
            members = more + members
        for member in members:
            if member.data + member.size > trusted:
                continue
            archive += batch.beyond and member.header != end
            end = member.end
            shard.members.append(member)
            shard.archives.append(archive)
    # No member follows the damage.
    if source.random and walk.stop is not None and walk.stop.kind == "silent":
        more = [
            member for member in _recovered(source, shard.members, end, []) if member.end <= trusted
        ]
        recovered, gaps = recovered + len(more), gaps + bool(more)
        shard.members += more
        shard.archives += [archive] * len(more)
    if recovered:
        report.fixed["damaged times in headers"] += recovered
    report.members = len(shard.members)
    # Some readers ignore global headers, which may change the names and sizes after them.
    has_faults = walk.seen.keys() - _HARMLESS or walk.global_records
    shard.is_sound = walk.stop is not None and walk.stop.kind == "end" and not has_faults
    _note_damage(walk, source, report, repaired=gaps)
    return shard


def _recovered(
    source: Source, before: list[Member], start: int, after: list[Member]
) -> list[Member]:
    """Return the members between others of which only the times in headers are damaged; none if that is not certain.

    Their names have to be those of further fields of a sample next to the damage, and such fields
    to occur elsewhere: a byte of a name may be damaged as well.
    """
    members = with_damaged_times(source.read_at, start, after[0].header if after else None)
    names = {key_of(member.name) for member in (*before[-1:], *after[:1])}
    keys = {name[0] for name in names if name is not None}
    fields = {name[1] for member in (*before, *after) if (name := key_of(member.name)) is not None}
    for member in members:
        name = key_of(member.name)
        if name is None or name in names or name[0] not in keys or name[1] not in fields:
            return []
    return members


def _note_damage(walk: Walk, source: Source, report: ShardRepair, *, repaired: int) -> None:
    """Note what cannot be read. ``repaired``: places with damaged headers that were."""
    for name, text in _DAMAGE.items():
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
    elif (stop := walk.stop) is not None:
        # Damage that was named above, and missing padding, explain why readers stop.
        is_explained = not walk.seen.keys().isdisjoint({*_DAMAGE, "tar.no-padding"})
        if stop.kind == "unreadable" or (stop.kind == "error" and not is_explained):
            report.lost.append(f"at byte {stop.offset:,}: {stop.detail}")
    if source.cut and walk.ended:
        # No data is lost.
        report.fixed["compressed stream cut after the end mark"] += 1
    elif source.cut and not report.lost:
        report.lost.append(f"after byte {source.length or 0:,} of the tar: {source.damage}")


def contents(source: Source, member: Member, start: int = 0, size: int = sys.maxsize) -> bytes:
    """Return up to ``size`` bytes of a member from ``start`` on. Raises SourceChangedError if the source ends early."""
    return source.exactly(member.data + start, max(0, min(size, member.size - start)))


def _contents(source: Source) -> Contents:
    """Return functions that read the members of a source."""
    digests: dict[int, bytes] = {}

    def digest(member: Member) -> bytes:
        if member.data not in digests:
            digests[member.data] = _digest(source, member)
        return digests[member.data]

    def field_decodes(name: str, member: Member) -> bool:
        return member.size > MOST_DECODED or decodes(name, contents(source, member))

    return Contents(lambda member: _link_target(source, member), digest, field_decodes)


def _digest(source: Source, member: Member) -> bytes:
    from xxhash import xxh3_128

    digest = xxh3_128()
    for start in range(0, member.size, _CHUNK):
        digest.update(contents(source, member, start, _CHUNK))
    return digest.digest()


def _link_target(source: Source, member: Member) -> str | None:
    """Return the name of the member that a link points to; None if it leads out of the archive."""
    stream = io.BytesIO(
        source.read_at(member.header, min(_LINK_HEADERS, member.data - member.header))
    )
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            info = tar.next()
    except (tarfile.TarError, OSError, ValueError):
        return None
    if info is None or not info.linkname or info.linkname.startswith("/"):
        return None
    return (
        info.linkname
        if info.islnk()
        else posixpath.join(posixpath.dirname(member.name), info.linkname)
    )
