"""Which samples next to damage have lost a field, by what can be read of damaged headers."""

from typing import Literal, NamedTuple

from wdsflow.shards.tar.lost_members import SAME, HeaderGap, LostMember, differences
from wdsflow.shards.tar.members import split_as_webdataset, split_name

from .tar_sample import TarSample

# The sample that a lost member belongs to; None if that is unknown.
Owner = Literal["before", "after", "neither"] | None


class IncompleteNeighbours(NamedTuple):
    """Whether the samples before and after damage have lost a member; None if that is unknown."""

    before: bool | None
    after: bool | None


def incomplete_neighbours(
    gap: HeaderGap, before: TarSample | None, after: TarSample | None
) -> IncompleteNeighbours:
    """Return which of the samples around a gap have lost a member."""
    if before is not None and after is not None and before.key == after.key:
        # One sample, in two parts.
        return IncompleteNeighbours(before=True, after=True)
    owners = [_owner(member, before, after) for member in gap.lost]
    all_known = gap.closed and bool(owners) and None not in owners
    # Of a sample that owns none of these members.
    otherwise = False if all_known else None
    return IncompleteNeighbours(
        before="before" in owners or otherwise,
        after="after" in owners or otherwise,
    )


def _owner(member: LostMember, before: TarSample | None, after: TarSample | None) -> Owner:
    """Return which sample a member belongs to."""
    if member.extended and member.next_name is None:
        return None
    if member.extended and member.next_name == SAME:
        return "neither"
    name = None
    if member.extended:
        name = member.next_name
    elif member.name_is_right:
        name = member.name
    if name is not None and split_as_webdataset(name) is not None:
        key = split_name(name)[0]
        if before is not None and key == before.key:
            return "before"
        if after is not None and key == after.key:
            return "after"
        return "neither"
    # First as it is, then with one byte corrected.
    for wrong_bytes in ([], [member.checksum_error]):
        if before is not None and _is_field_of(before, member.name, wrong_bytes):
            return "before"
        if after is not None and _is_field_of(after, member.name, wrong_bytes):
            return "after"
    return None


def _is_field_of(sample: TarSample, name: str, wrong_bytes: list[int]) -> bool:
    """Return whether a name is a further field of a sample, if some bytes of its key are wrong.

    ``wrong_bytes``: the amounts by which the bytes are wrong.
    """
    prefix = f"{sample.key}.".encode("utf-8", "surrogateescape")
    name_bytes = name.encode("utf-8", "surrogateescape")
    if len(name_bytes) <= len(prefix):
        return False
    if differences(prefix, name_bytes) != wrong_bytes:
        return False
    field = name_bytes[len(prefix) :].decode("utf-8", "surrogateescape")
    return field.lower() not in sample.fields
