"""Members of which only the time in the header is damaged: nothing that a reader uses is lost."""

from .members import Member
from .tar_header import (
    BLOCK,
    REGULAR,
    ZEROS,
    BadHeader,
    Header,
    Read,
    decode_number,
    is_header,
    parse_header,
)

# The digits of the time in a header.
_TIME = slice(136, 147)
_OCTAL = b"01234567"
_CHECKSUM = slice(148, 156)


def with_damaged_times(read: Read, start: int, stop: int | None) -> list[Member]:
    """Return the members of a range if only the times in their headers are damaged.

    The members are those from ``start`` to ``stop``, or to the end mark.

    They fill that part of the tar exactly; if they do not, there are none. A name may have a wrong
    byte, too, but only if that is hidden by those of the time in the checksum.
    """
    members: list[Member] = []
    at = start
    while stop is None or at < stop:
        block = read(at, BLOCK)
        if stop is None and block == ZEROS:
            return members
        if len(block) < BLOCK:
            return []
        header = _time_repaired(block)
        if header is None or header.type not in REGULAR or header.sparse or header.size < 0:
            return []
        member = Member(header.name, header.size, at + BLOCK, at, "file")
        members.append(member)
        at = member.end
    return members if at == stop else []


def _time_repaired(block: bytes) -> Header | None:
    """Return the repaired header if only digits of its time are damaged, most likely.

    None if there is other damage.

    Bytes that are no digits show where the damage is; with digits in their place the checksum has
    to hold.
    """
    digits = block[_TIME]
    wrong = [at for at, byte in enumerate(digits) if byte not in _OCTAL]
    if not wrong:
        return None
    try:
        checksum = decode_number(block[_CHECKSUM])
    except BadHeader:
        return None
    # As if the checksum was spaces, and each wrong digit a zero.
    total = sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")
    total += len(wrong) * ord("0") - sum(digits[at] for at in wrong)
    # The sum of the digits that were there.
    rest = checksum - total
    if not 0 <= rest <= 7 * len(wrong):
        return None
    repaired = bytearray(digits)
    for at in wrong:
        # Which digits they were does not matter: no reader looks at the time.
        digit = min(rest, 7)
        repaired[at] = ord("0") + digit
        rest -= digit
    header = block[: _TIME.start] + bytes(repaired) + block[_TIME.stop :]
    return parse_header(header) if is_header(header) else None
