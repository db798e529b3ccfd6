"""Pairs of hashes that differ in few bits, among those in memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .hash_bits import Hashes, count_ones
from .hash_blocks import Blocks, BlockTable, plan, tables

Numbers = NDArray[np.int64]
Pair = tuple[Numbers, Numbers]

# Hashes that are compared directly.
_FEW = 512
# Hashes that are compared individually only if nothing else helps.
_MANY = 100_000
# Pairs that are compared at once.
_AT_ONCE = 1 << 20
_ALL_BITS = (1 << 64) - 1


def pairs(hashes: Hashes, distance: int, free: int = _ALL_BITS) -> Iterator[Pair]:
    """Yield (i, j), arrays of numbers of distinct hashes that differ in at most ``distance`` bits, each pair once.

    All hashes are equal except in the bits ``free``. Memory grows with the number of hashes, not of
    pairs.
    """
    if len(hashes) <= _FEW or free.bit_count() <= distance + 1:
        yield from _all_pairs(hashes, distance)
        return
    blocks = plan(len(hashes), free, distance)
    if len(hashes) <= _MANY and not _pays(hashes, blocks):
        yield from _all_pairs(hashes, distance)
        return
    for table in tables(blocks):
        yield from bucket_pairs(hashes, table, distance, free)


def bucket_pairs(hashes: Hashes, table: BlockTable, distance: int, free: int) -> Iterator[Pair]:
    """Yield the pairs of hashes that count for a table: they are equal in its key, and differ in its other blocks."""
    keys = hashes & np.uint64(table.key)
    order = np.argsort(keys, kind="stable")
    ordered = hashes[order]
    keys = keys[order]
    # A bucket is the neighbours of one key.
    begins = np.concatenate(([True], keys[1:] != keys[:-1]))
    starts = np.flatnonzero(begins)
    sizes = np.diff(starts, append=len(keys))
    is_large = sizes > _FEW
    large = starts[is_large].tolist()
    for start, size in zip(large, sizes[is_large].tolist(), strict=True):
        for first, second in _pairs_in_large(ordered, start, size, table, distance, free):
            yield order[first], order[second]
    is_small = (sizes > 1) & ~is_large
    positions = np.flatnonzero(np.repeat(is_small, sizes))
    ends = np.repeat(starts + sizes, sizes)[positions]
    for first, second in _pairs_in_small(ordered, positions, ends, table, distance):
        yield order[first], order[second]


def _pairs_in_large(
    ordered: Hashes, start: int, size: int, table: BlockTable, distance: int, free: int
) -> Iterator[Pair]:
    """Yield the pairs of one bucket, which is divided again by the bits that its key does not have."""
    bucket = ordered[start : start + size]
    for first_in_bucket, second_in_bucket in pairs(bucket, distance, free & ~table.key):
        first = start + first_in_bucket
        second = start + second_in_bucket
        # They are within the distance.
        bits = ordered[first] ^ ordered[second]
        chosen = _differ_in(bits, table.differing)
        if chosen.any():
            yield first[chosen], second[chosen]


def _pairs_in_small(
    ordered: Hashes, positions: Numbers, ends: Numbers, table: BlockTable, distance: int
) -> Iterator[Pair]:
    """Yield the pairs of all small buckets, whose hashes are compared directly."""
    for first, second in _neighbours(positions, ends):
        bits = ordered[first] ^ ordered[second]
        chosen = count_ones(bits) <= distance
        chosen &= _differ_in(bits, table.differing)
        if chosen.any():
            yield first[chosen], second[chosen]


def _neighbours(positions: Numbers, ends: Numbers) -> Iterator[Pair]:
    """Yield all pairs of positions in the same small bucket, many buckets at once.

    Each position with the next one, then with the one after that, up to the end of its bucket.
    """
    for step in range(1, _FEW):
        has_partner = positions + step < ends
        positions = positions[has_partner]
        ends = ends[has_partner]
        if not len(positions):
            return
        for start in range(0, len(positions), _AT_ONCE):
            part = positions[start : start + _AT_ONCE]
            yield part, part + step


def _differ_in(bits: Hashes, blocks: Sequence[int]) -> NDArray[np.bool_]:
    """Return which pairs, given by the bits in which they differ, differ in each of some blocks."""
    differ = np.ones(len(bits), bool)
    for block in blocks:
        differ &= (bits & np.uint64(block)) != 0
    return differ


def _all_pairs(hashes: Hashes, distance: int) -> Iterator[Pair]:
    """Compare all pairs of hashes."""
    numbers = np.arange(len(hashes))
    for step in range(1, len(hashes)):
        near = count_ones(hashes[step:] ^ hashes[:-step]) <= distance
        if near.any():
            yield numbers[:-step][near], numbers[step:][near]


def _pays(hashes: Hashes, blocks: Blocks) -> bool:
    """Return whether the buckets have fewer pairs than a direct comparison; those of similar images may have more."""
    remaining = len(hashes) ** 2
    for table in tables(blocks):
        _, sizes = np.unique(hashes & np.uint64(table.key), return_counts=True)
        remaining -= int(np.square(sizes).sum())
        if remaining < 0:
            return False
    return True
