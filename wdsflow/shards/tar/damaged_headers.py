"""After damage: the next valid header, and the readable parts of damaged ones."""

from collections.abc import Container, Iterator
from typing import NamedTuple, Protocol

from .members import Member, key_of, split_name
from .tar_header import (
    BLOCK,
    LONGEST,
    REGULAR,
    WANTED,
    ZEROS,
    BadHeader,
    Header,
    Read,
    RefusedRecord,
    is_header,
    number,
    padded,
    parse_header,
    read_records,
    text,
)

_STEP = 1 << 20

_ITS_OWN = 2
# POSIX, GNU.
_MAGIC = (b"ustar\x0000", b"ustar  \0")
# Headers that describe the member after them.
_EXTENDED = frozenset((b"x", b"X", b"g", b"L", b"K"))
# The digits of the time in a header.
_TIME, _OCTAL = slice(136, 147), b"01234567"
# Such a header changes neither name nor size.
_SAME = ""


class FoundHeader(NamedTuple):
    """The result of a search after the end of reading."""

    # Offset of the next valid header.
    header: int | None
    # Offset of the first block that is not zero.
    junk: int | None


def search(read: Read, start: int, *, old: bool = False, until: int | None = None) -> FoundHeader:
    """Search on block borders from ``start`` on, in linear time; ``old`` also finds headers without magic."""
    base = padded(start)
    junk = None
    while until is None or base < until:
        window = read(base, _STEP)
        if junk is None and (rest := len(window.lstrip(b"\0"))):
            junk = base + (len(window) - rest) // BLOCK * BLOCK
        if junk is not None:
            starts = range(0, len(window) - BLOCK + 1, BLOCK) if old else _with_magic(window)
            for at in starts:
                if is_header(window[at : at + BLOCK], old=old):
                    return FoundHeader(base + at, junk)
        if len(window) < _STEP:
            break
        base += _STEP
    return FoundHeader(None, junk)


def _with_magic(window: bytes) -> Iterator[int]:
    """Yield the offsets of whole blocks that have the ustar magic."""
    magic = window.find(b"ustar", 257)
    while magic >= 0:
        at, odd = divmod(magic - 257, BLOCK)
        if not odd and (at + 1) * BLOCK <= len(window):
            yield at * BLOCK
        magic = window.find(b"ustar", (at + 1) * BLOCK + 257)


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

    def is_of(self, sample: "Neighbour", *, exactly: bool) -> bool:
        """Return whether it is a further field of a sample; unless ``exactly``, with one byte corrected."""
        start, name = (
            text.encode("utf-8", "surrogateescape") for text in (f"{sample.key}.", self.name)
        )
        wrong = [right - found for right, found in zip(start, name, strict=False) if right != found]
        if len(name) <= len(start) or wrong != ([] if exactly else [self.missing]):
            return False
        return name[len(start) :].decode("utf-8", "surrogateescape").lower() not in sample.fields


class Neighbour(Protocol):
    """A sample next to damage."""

    key: str

    @property
    def fields(self) -> Container[str]:
        """The names of its fields, as far as they are known."""


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

    def hurts(
        self, before: Neighbour | None, after: Neighbour | None
    ) -> tuple[bool | None, bool | None]:
        """Return whether the samples before and after it have lost a member; None where that is not known."""
        if before is not None and after is not None and before.key == after.key:
            return True, True
        owners = [_owner(member, before, after) for member in self.lost]
        known = self.closed and bool(owners) and None not in owners
        return 0 in owners or (False if known else None), 1 in owners or (False if known else None)


def _owner(member: LostMember, before: Neighbour | None, after: Neighbour | None) -> int | None:
    """Return 0 if a member belongs to the sample before it, 1 to the one after it, 2 to none of them; None if that is unknown."""
    if member.extended and not member.next_name:
        return None if member.next_name is None else _ITS_OWN
    name = member.next_name if member.extended else member.name if member.named else None
    if name is not None and key_of(name) is not None:
        keys = [None if sample is None else sample.key for sample in (before, after)]
        key = split_name(name)[0]
        return keys.index(key) if key in keys else _ITS_OWN
    for exactly in (True, False):
        for number_, sample in enumerate((before, after)):
            if sample is not None and member.is_of(sample, exactly=exactly):
                return number_
    return None


def lost_between(read: Read, start: int, stop: int | None) -> HeaderGap:
    """Read the damaged headers from ``start`` up to ``stop``, where a valid one is, or up to the end of the archive."""
    lost: list[LostMember] = []
    at, size = start, 0 if stop is None else stop - start
    while stop is None or at < stop:
        block = read(at, BLOCK)
        if len(block) < BLOCK or block == ZEROS:
            return HeaderGap(tuple(lost), closed=stop is None, size=size)
        member = _lost_member(block)
        if member is None:
            return HeaderGap(tuple(lost), size=size)
        if member.extended and 0 <= member.size <= LONGEST:
            member = member._replace(
                next_name=_next_name(block[156:157], read(at + BLOCK, member.size))
            )
        # Its own name may be a stand-in.
        if lost and lost[-1].extended and lost[-1].next_name != _SAME:
            name = lost[-1].next_name
            member = member._replace(
                name=member.name if name is None else name, named=name is not None
            )
        lost.append(member)
        if member.size < 0:
            return HeaderGap(tuple(lost), size=size)
        at += BLOCK + padded(member.size)
    return HeaderGap(tuple(lost), closed=at == stop, size=size)


def with_damaged_times(read: Read, start: int, stop: int | None) -> list[Member]:
    """Return the members from ``start`` to ``stop``, or to the end mark, of which only the times in headers are damaged.

    They fill that part of the tar exactly; if they do not, there are none. A name may have a wrong
    byte, too, but only if that is hidden by those of the time in the checksum.
    """
    found: list[Member] = []
    at = start
    while stop is None or at < stop:
        block = read(at, BLOCK)
        if stop is None and block == ZEROS:
            return found
        header = None if len(block) < BLOCK else _time_repaired(block)
        if header is None or header.type not in REGULAR or header.sparse or header.size < 0:
            return []
        found.append(Member(header.name, header.size, at + BLOCK, at, "file"))
        at = found[-1].end
    return found if at == stop else []


def _time_repaired(block: bytes) -> Header | None:
    """Return a header of which digits of the time are damaged, and most likely nothing else; None if there is other damage.

    Bytes that are no digits show where the damage is; with digits in their place the checksum has
    to hold.
    """
    digits = block[_TIME]
    wrong = [at for at, byte in enumerate(digits) if byte not in _OCTAL]
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    try:
        rest = (
            number(block[148:156]) - total + sum(digits[at] for at in wrong) - len(wrong) * ord("0")
        )
    except BadHeader:
        return None
    if not wrong or not 0 <= rest <= 7 * len(wrong):
        return None
    repaired = bytearray(digits)
    for at in wrong:
        # Which digits they were does not matter: no reader looks at the time.
        digit = min(rest, 7)
        repaired[at] = ord("0") + digit
        rest -= digit
    whole = block[: _TIME.start] + bytes(repaired) + block[_TIME.stop :]
    return parse_header(whole) if is_header(whole) else None


def _lost_member(block: bytes) -> LostMember | None:
    """Read a damaged header; None if nothing in the block looks like one."""
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    try:
        missing = number(block[148:156]) - total
        # As if a single byte was wrong.
        near = -256 < missing < 256
    except BadHeader:
        missing, near = 0, False
    name, prefix, kind = text(block[:100]), text(block[345:500]), block[156:157]
    if not name or not (near or block[257:262] == b"ustar"):
        return None
    try:
        size = number(block[124:136])
    except BadHeader:
        size = -1
    whole = f"{prefix}/{name}" if prefix else name
    return LostMember(whole, size, missing, kind in _EXTENDED, _is_elsewhere(block, missing))


def _next_name(kind: bytes, body: bytes) -> str | None:
    """Return the name that an extended header holds for the next member; ``LostMember.next_name`` has the other values."""
    if kind in (b"L", b"K"):
        return text(body) if kind == b"L" else _SAME
    try:
        found = read_records(body)
    except (BadHeader, RefusedRecord):
        return None
    return found.get("path", _SAME if WANTED.isdisjoint(found) else None)


def _is_elsewhere(block: bytes, missing: int) -> bool:
    """Return whether the wrong byte is known: one after the name, or one of the magic number."""
    wrong = [-byte for byte in block[:100][block.index(0) :] if byte] if 0 in block[:100] else []
    near = min(_MAGIC, key=lambda magic: sum(map(int.__ne__, magic, block[257:265])))
    wrong += [
        right - found for right, found in zip(near, block[257:265], strict=True) if right != found
    ]
    return bool(missing) and wrong == [missing]
