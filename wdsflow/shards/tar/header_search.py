"""Looking for the next sound header after damage, or after the end mark."""

from typing import NamedTuple

from .tar_header import BLOCK, Read, is_header, padded

_STEP = 1 << 20


class FoundHeader(NamedTuple):
    """What is after a place where reading ended."""

    header: int | None  # offset of the next sound header
    junk: int | None  # offset of the first block that is not zero


def search(read: Read, start: int, *, old: bool = False, until: int | None = None) -> FoundHeader:
    """Search on block borders from ``start`` on, in linear time; ``old`` also finds headers without magic."""
    base = padded(start)
    junk = None
    while until is None or base < until:
        window = read(base, _STEP)
        if junk is None and (rest := len(window.lstrip(b"\0"))):
            junk = base + (len(window) - rest) // BLOCK * BLOCK
        if junk is not None and (at := _first_header(window, old)) is not None:
            return FoundHeader(base + at, junk)
        if len(window) < _STEP:
            break
        base += _STEP
    return FoundHeader(None, junk)


def _first_header(window: bytes, old: bool) -> int | None:
    if old:
        starts = range(0, len(window) - BLOCK + 1, BLOCK)
        return next((at for at in starts if is_header(window[at : at + BLOCK], old=True)), None)
    magic = window.find(b"ustar", 257)
    while magic >= 0:
        at, odd = divmod(magic - 257, BLOCK)
        at *= BLOCK
        if not odd and at + BLOCK <= len(window) and is_header(window[at : at + BLOCK]):
            return at
        magic = window.find(b"ustar", at + BLOCK + 257)
    return None
