"""The samples of one shard: its readable members, regrouped."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

from wdsflow.images.image_header import HEAD
from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.pieces import address
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member

from .borders import Borders, first_members
from .field_contents import image_field
from .image_names import name_images
from .member_contents import content_reader, read_contents
from .pairing import pair_names
from .read_members import read_members
from .regroup import RegroupedShard, regroup
from .repair_plan import RepairPlan
from .repair_report import ShardRepair

# In place of the number of an archive.
_OF_NEXT_SHARD = -1


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
    shard = read_members(source, report)
    members, archives = shard.members, shard.archives
    is_valid_tar = shard.is_intact and not source.is_temporary_copy
    if borders.skip:
        del members[: borders.skip], archives[: borders.skip]
        report.dropped["moved to the shard before"] += borders.skip
        is_valid_tar = False
    if borders.tail is not None:
        url, count = borders.tail
        next_shard = stack.enter_context(open_source(url))
        for member in first_members(next_shard, count):
            moved = member._replace(data=address(1, member.data), header=address(1, member.header))
            members.append(moved)
            # No reader joins them with the end of this shard for certain.
            archives.append(_OF_NEXT_SHARD)
        source = _joined(source, next_shard)
        report.members += count
        report.fixed["members taken from the next shard"] += count
        is_valid_tar = False
    names = _names(source, members, plan, report)
    regrouped = regroup(members, archives, content_reader(source), names)
    report.samples = len(regrouped.samples)
    report.dropped += regrouped.dropped
    report.fixed += regrouped.fixed
    report.renamed_key = regrouped.renamed_key
    return ShardSamples(source, members, is_valid_tar, regrouped)


def _joined(source: Source, next_shard: Source) -> Source:
    """Return a source of both, in which the next shard has the addresses of number 1."""
    sources = [source, next_shard]
    return JoinedSource(lambda number: nullcontext(sources[number]), lambda _: 2)


def _names(
    source: Source, members: list[Member], plan: RepairPlan, report: ShardRepair
) -> list[str]:
    """Return the names of members after the steps of a plan that need all names of the shard."""
    names = [member.name for member in members]
    if plan.name_images:

        def field_of(index: int) -> str:
            member = members[index]
            if member.kind != "file":
                return ""
            return image_field(read_contents(source, member, 0, HEAD))

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
