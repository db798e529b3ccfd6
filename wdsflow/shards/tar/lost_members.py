"""Members with damaged headers: what can still be read of them.

A header has a checksum. If a single byte of it is wrong, the checksum shows by how much, so that
the name can often be trusted, or corrected.
"""

from typing import NamedTuple

from .tar_header import (
    BLOCK,
    LONGEST,
    WANTED,
    ZEROS,
    BadHeader,
    Read,
    RefusedRecord,
    decode_number,
    decode_text,
    padded,
    read_records,
)

# An extended header that changes neither name nor size.
SAME = ""
# POSIX, GNU.
_MAGIC = (b"ustar\x0000", b"ustar  \0")
# Headers that describe the member after them.
_EXTENDED = frozenset((b"x", b"X", b"g", b"L", b"K"))


class LostMember(NamedTuple):
    """A member whose header is damaged, as far as it can be read.

    Its name may have a wrong byte.
    """

    name: str
    # Bytes, -1 if that cannot be read.
    size: int
    # The checksum, less the sum of the bytes: if one byte is wrong, what has to be added to it.
    checksum_error: int
    # Not a member, but a header that describes the next one.
    extended: bool
    # The only wrong byte is not in the name.
    name_is_right: bool = False
    # In an extended header: the name of the next member, SAME if it has neither name nor size, None
    # if unknown.
    next_name: str | None = None


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
        return bool(self.lost) and self.lost[-1].extended and self.lost[-1].next_name != SAME


def lost_between(read: Read, start: int, stop: int | None) -> HeaderGap:
    """Read the damaged headers from ``start`` up to ``stop``, where a valid one is.

    With None, read up to the end of the archive.
    """
    lost: list[LostMember] = []
    at = start
    size = 0 if stop is None else stop - start
    while stop is None or at < stop:
        block = read(at, BLOCK)
        is_end = len(block) < BLOCK or block == ZEROS
        if is_end:
            return HeaderGap(tuple(lost), closed=stop is None, size=size)
        member = _lost_member(block)
        if member is None:
            return HeaderGap(tuple(lost), size=size)
        if member.extended and 0 <= member.size <= LONGEST:
            body = read(at + BLOCK, member.size)
            member = member._replace(next_name=_next_name(block[156:157], body))
        if lost:
            member = _named_by(lost[-1], member)
        lost.append(member)
        if member.size < 0:
            # Where the next header is cannot be known.
            return HeaderGap(tuple(lost), size=size)
        at += BLOCK + padded(member.size)
    return HeaderGap(tuple(lost), closed=at == stop, size=size)


def differences(right: bytes, actual: bytes) -> list[int]:
    """Return what has to be added to bytes to make them right, of each that is wrong."""
    changes: list[int] = []
    for right_byte, byte in zip(right, actual, strict=False):
        if right_byte != byte:
            changes.append(right_byte - byte)
    return changes


def _lost_member(block: bytes) -> LostMember | None:
    """Read a damaged header; None if nothing in the block looks like one."""
    # The checksum itself counts as blanks.
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    try:
        checksum_error = decode_number(block[148:156]) - total
        may_be_one_byte = -256 < checksum_error < 256
    except BadHeader:
        checksum_error = 0
        may_be_one_byte = False
    name = decode_text(block[:100])
    has_magic = block[257:262] == b"ustar"
    if not name or not (may_be_one_byte or has_magic):
        return None
    prefix = decode_text(block[345:500])
    if prefix:
        name = f"{prefix}/{name}"
    try:
        size = decode_number(block[124:136])
    except BadHeader:
        size = -1
    extended = block[156:157] in _EXTENDED
    name_is_right = _name_is_right(block, checksum_error)
    return LostMember(name, size, checksum_error, extended, name_is_right)


def _name_is_right(block: bytes, checksum_error: int) -> bool:
    """Return whether the only wrong byte is after the name, or in the magic."""
    if not checksum_error:
        return False
    changes: list[int] = []
    name = block[:100]
    if 0 in name:
        # After its end there are zeros.
        rest = name[name.index(0) :]
        changes += differences(bytes(len(rest)), rest)
    magic = block[257:265]
    nearest = min(_MAGIC, key=lambda valid: len(differences(valid, magic)))
    changes += differences(nearest, magic)
    return changes == [checksum_error]


def _next_name(kind: bytes, body: bytes) -> str | None:
    """Return the name that an extended header gives to the next member.

    ``LostMember.next_name`` describes the other values.
    """
    if kind == b"L":
        return decode_text(body)
    if kind == b"K":
        # The target of a link.
        return SAME
    try:
        records = read_records(body)
    except (BadHeader, RefusedRecord):
        return None
    if "path" in records:
        return records["path"]
    return SAME if WANTED.isdisjoint(records) else None


def _named_by(before: LostMember, member: LostMember) -> LostMember:
    """Return a member with the name that an extended header before it holds."""
    if not before.extended or before.next_name == SAME:
        return member
    # The name in its own header is only a placeholder.
    if before.next_name is None:
        return member._replace(name_is_right=False)
    return member._replace(name=before.next_name, name_is_right=True)
