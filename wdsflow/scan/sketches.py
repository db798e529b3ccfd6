"""Sketches of sets of names: sets that share names share hashes in their sketches."""

import heapq
import zlib
from collections.abc import Iterable


def smallest_hashes(names: Iterable[str], size: int) -> tuple[int, ...]:
    """Return the ``size`` smallest 32-bit hashes of names, which may hold surrogates."""
    hashes = (zlib.crc32(name.encode("utf-8", "surrogateescape")) for name in names)
    return tuple(heapq.nsmallest(size, hashes))
