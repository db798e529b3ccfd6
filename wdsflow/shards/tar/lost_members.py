"""Members with damaged headers: what can still be read of them, and which samples they belong to."""

from collections.abc import Container
from typing import NamedTuple, Protocol

from .members import key_of, split_name
from .tar_header import (
    BLOCK,
    LONGEST,
    WANTED,
    ZEROS,
    BadHeader,
    Read,
    RefusedRecord,
    number,
    padded,
    read_records,
    text,
)

# POSIX, GNU.
_MAGIC = (b"ustar\x0000", b"ustar  \0")
# Headers that describe the member after them.
_EXTENDED = frozenset((b"x", b"X", b"g", b"L", b"K"))
# An extended header that changes neither name nor size.
_SAME = ""
# The owner of a member, of the samples around it.
_BEFORE, _AFTER, _NEITHER = 0, 1, 2


class Neighbour(Protocol):
    """A sample next to damage."""

    key: str

    @property
    def fields(self) -> Container[str]:
        """The names of its fields, as far as they are known."""


class LostMember(NamedTuple):
    """A member whose header is damaged, as far as it can be read; its name may have a wrong byte."""

    name: str
    # Bytes, -1 if that cannot be read.
    size: int
    # The checksum, less the sum of the bytes: if one byte is wrong, its difference.
    missing: int
    # Not a member, but a header that describes the next one.
    extended: bool
    # Its name is right: the only wrong byte is elsewhere.
    named: bool = False
    # In an extended header: "" if it has neither name nor size, None if unknown.
    next_name: str | None = None

    def is_of(self, sample: Neighbour, *, exactly: bool) -> bool:
        """Return whether it is a further field of a sample; unless ``exactly``, with one byte corrected."""
        prefix = f"{sample.key}.".encode("utf-8", "surrogateescape")
        name = self.name.encode("utf-8", "surrogateescape")
        if len(name) <= len(prefix):
            return False
        differences = []
        for right, read in zip(prefix, name, strict=False):
            if right != read:
                differences.append(right - read)
        if differences != ([] if exactly else [self.missing]):
            return False
        field = name[len(prefix) :].decode("utf-8", "surrogateescape")
        return field.lower() not in sample.fields


class HeaderGap(NamedTuple):
    """A part of a tar between members that can be read."""

    lost: tuple[LostMember, ...] = ()
    # These members fill it: nothing else was lost.
    closed: bool = False
    # Bytes; 0 at the end of the archive.
    size: int = 0

    @property
    def unnamed(self) -> bool:
        """Whether the member after it has lost its name."""
        return bool(self.lost) and self.lost[-1].extended and self.lost[-1].next_name != _SAME

    def have_lost(
        self, before: Neighbour | None, after: Neighbour | None
    ) -> tuple[bool | None, bool | None]:
        """Return whether the samples before and after it have lost a member; None if that is unknown."""
        if before is not None and after is not None and before.key == after.key:
            return True, True
        owners = [_owner(member, before, after) for member in self.lost]
        all_known = self.closed and bool(owners) and None not in owners
        # Of a sample that owns none of these members.
        otherwise = False if all_known else None
        return _BEFORE in owners or otherwise, _AFTER in owners or otherwise


def lost_between(read: Read, start: int, stop: int | None) -> HeaderGap:
    """Read the damaged headers from ``start`` up to ``stop``, where a valid one is, or up to the end of the archive."""
    lost: list[LostMember] = []
    at = start
    size = 0 if stop is None else stop - start
    while stop is None or at < stop:
        block = read(at, BLOCK)
        if len(block) < BLOCK or block == ZEROS:
            return HeaderGap(tuple(lost), closed=stop is None, size=size)
        member = _lost_member(block)
        if member is None:
            return HeaderGap(tuple(lost), size=size)
        if member.extended and 0 <= member.size <= LONGEST:
            body = read(at + BLOCK, member.size)
            member = member._replace(next_name=_next_name(block[156:157], body))
        # Its name may be in the extended header before it;
        # then the one in its header is a placeholder.
        if lost and lost[-1].extended and lost[-1].next_name != _SAME:
            name = lost[-1].next_name
            if name is None:
                member = member._replace(named=False)
            else:
                member = member._replace(name=name, named=True)
        lost.append(member)
        if member.size < 0:
            return HeaderGap(tuple(lost), size=size)
        at += BLOCK + padded(member.size)
    return HeaderGap(tuple(lost), closed=at == stop, size=size)


def _owner(member: LostMember, before: Neighbour | None, after: Neighbour | None) -> int | None:
    """Return whether a member belongs to the sample before it, after it, or neither; None if that is unknown."""
    if member.extended and not member.next_name:
        return None if member.next_name is None else _NEITHER
    name = None
    if member.extended:
        name = member.next_name
    elif member.named:
        name = member.name
    if name is not None and key_of(name) is not None:
        key = split_name(name)[0]
        if before is not None and key == before.key:
            return _BEFORE
        if after is not None and key == after.key:
            return _AFTER
        return _NEITHER
    for exactly in (True, False):
        if before is not None and member.is_of(before, exactly=exactly):
            return _BEFORE
        if after is not None and member.is_of(after, exactly=exactly):
            return _AFTER
    return None


def _lost_member(block: bytes) -> LostMember | None:
    """Read a damaged header; None if nothing in the block looks like one."""
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    try:
        missing = number(block[148:156]) - total
        # As if a single byte was wrong.
        is_near = -256 < missing < 256
    except BadHeader:
        missing = 0
        is_near = False
    name = text(block[:100])
    if not name or not (is_near or block[257:262] == b"ustar"):
        return None
    prefix = text(block[345:500])
    if prefix:
        name = f"{prefix}/{name}"
    try:
        size = number(block[124:136])
    except BadHeader:
        size = -1
    extended = block[156:157] in _EXTENDED
    return LostMember(name, size, missing, extended, _name_is_right(block, missing))


def _next_name(kind: bytes, body: bytes) -> str | None:
    """Return the name that an extended header holds for the next member; ``LostMember.next_name`` has the other values."""
    if kind == b"L":
        return text(body)
    if kind == b"K":
        return _SAME
    try:
        records = read_records(body)
    except (BadHeader, RefusedRecord):
        return None
    if "path" in records:
        return records["path"]
    return _SAME if WANTED.isdisjoint(records) else None


def _name_is_right(block: bytes, missing: int) -> bool:
    """Return whether the only wrong byte is after the name, or in the magic."""
    if not missing:
        return False
    differences: list[int] = []
    name = block[:100]
    if 0 in name:
        # After its end there are zeros.
        differences += [-byte for byte in name[name.index(0) :] if byte]
    magic = block[257:265]
    nearest = min(_MAGIC, key=lambda known: sum(map(int.__ne__, known, magic)))
    for right, read in zip(nearest, magic, strict=True):
        if right != read:
            differences.append(right - read)
    return differences == [missing]
