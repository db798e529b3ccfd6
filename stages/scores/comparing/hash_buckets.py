"""Hashes ordered by some of their bits: those that are equal in these bits are a bucket.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .hash_bits import Hashes

Numbers = NDArray[np.int64]
Pair = tuple[Numbers, Numbers]

# Pairs that are given at once.
_AT_ONCE = 1 << 20


class Buckets(NamedTuple):
    """The buckets of an array of hashes.

    Attributes:
        order: the numbers of the hashes, bucket by bucket.
        starts: the position in ``order`` at which each bucket begins.
        sizes: how many hashes each bucket has.
    """

    order: Numbers
    starts: Numbers
    sizes: Numbers

    def larger_than(self, size: int) -> Iterator[slice]:
        """Yield the positions of each bucket of more than ``size`` hashes."""
        is_large = self.sizes > size
        starts = self.starts[is_large].tolist()
        sizes = self.sizes[is_large].tolist()
        for start, bucket_size in zip(starts, sizes, strict=True):
            yield slice(start, start + bucket_size)

    def pairs_up_to(self, size: int) -> Iterator[Pair]:
        """Yield the pairs of positions in the same bucket.

        Only buckets of at most ``size`` hashes are used.

        Many buckets at once: each position with the next one, then with the one after that, up to
        the end of its bucket.
        """
        has_pairs = (self.sizes > 1) & (self.sizes <= size)
        positions = np.flatnonzero(np.repeat(has_pairs, self.sizes))
        ends = np.repeat(self.starts + self.sizes, self.sizes)[positions]
        for step in range(1, size):
            has_partner = positions + step < ends
            positions = positions[has_partner]
            ends = ends[has_partner]
            if not len(positions):
                return
            for start in range(0, len(positions), _AT_ONCE):
                part = positions[start : start + _AT_ONCE]
                yield part, part + step


def buckets_of(hashes: Hashes, key: int) -> Buckets:
    """Return the buckets of hashes that are equal in the bits ``key``."""
    keys = hashes & np.uint64(key)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins_bucket = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(begins_bucket)
    sizes = np.diff(starts, append=len(ordered))
    return Buckets(order, starts, sizes)
