"""The next valid header after damage, or after an end mark."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .tar_header import BLOCK, Read, is_header, padded

# Bytes that are searched at a time.
_STEP = 1 << 20
_MAGIC = b"ustar"
# Of the magic in a header.
_MAGIC_OFFSET = 257


class SearchResult(NamedTuple):
    """The result of a search after the end of reading."""

    # Offset of the next valid header.
    header: int | None
    # Offset of the first block that is not zero.
    junk: int | None


def search(read: Read, start: int, *, old: bool = False, until: int | None = None) -> SearchResult:
    """Search for a header on block boundaries from ``start`` on, in linear time.

    ``old`` also accepts headers without magic.
    """
    base = padded(start)
    junk = None
    while until is None or base < until:
        window = read(base, _STEP)
        if junk is None:
            rest = len(window.lstrip(b"\0"))
            if rest:
                junk = base + (len(window) - rest) // BLOCK * BLOCK
        if junk is not None:
            candidates: Iterable[int] = _blocks_with_magic(window)
            if old:
                candidates = range(0, len(window) - BLOCK + 1, BLOCK)
            for at in candidates:
                if is_header(window[at : at + BLOCK], old=old):
                    return SearchResult(base + at, junk)
        if len(window) < _STEP:
            break
        base += _STEP
    return SearchResult(None, junk)


def _blocks_with_magic(window: bytes) -> Iterator[int]:
    """Yield the offsets of whole blocks that have the ustar magic."""
    magic = window.find(_MAGIC, _MAGIC_OFFSET)
    while magic >= 0:
        block, rest = divmod(magic - _MAGIC_OFFSET, BLOCK)
        is_whole = (block + 1) * BLOCK <= len(window)
        if not rest and is_whole:
            yield block * BLOCK
        magic = window.find(_MAGIC, (block + 1) * BLOCK + _MAGIC_OFFSET)
