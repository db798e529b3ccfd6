"""Pairs of hashes that differ in few bits, among those in memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .hash_bits import Hashes, count_ones
from .hash_blocks import Blocks, BlockTable, block_tables, plan_blocks
from .hash_buckets import Pair, buckets_of

# Hashes that are compared directly.
_FEW = 512
# Hashes that are compared directly only if buckets would have more pairs.
_MANY = 100_000
_ALL_BITS = (1 << 64) - 1


def near_pairs(hashes: Hashes, distance: int, free: int = _ALL_BITS) -> Iterator[Pair]:
    """Yield the pairs of distinct hashes that differ in at most ``distance`` bits.

    They are arrays (i, j) of the hashes' numbers, with each pair once.

    All hashes are equal except in the bits ``free``. Memory grows with the number of hashes, not of
    pairs.
    """
    if len(hashes) <= _FEW or free.bit_count() <= distance + 1:
        yield from _all_pairs(hashes, distance)
        return
    blocks = plan_blocks(len(hashes), free, distance)
    if len(hashes) <= _MANY and not _is_bucketing_cheaper(hashes, blocks):
        yield from _all_pairs(hashes, distance)
        return
    for table in block_tables(blocks):
        yield from bucket_pairs(hashes, table, distance, free)


def bucket_pairs(hashes: Hashes, table: BlockTable, distance: int, free: int) -> Iterator[Pair]:
    """Yield the pairs of near hashes that count for one table.

    They are equal in the table's key, and differ in its other blocks.
    """
    buckets = buckets_of(hashes, table.key)
    ordered = hashes[buckets.order]
    for bucket in buckets.larger_than(_FEW):
        for first, second in _pairs_in_large(ordered, bucket, table, distance, free):
            yield buckets.order[first], buckets.order[second]
    for first, second in buckets.pairs_up_to(_FEW):
        bits = ordered[first] ^ ordered[second]
        counts = count_ones(bits) <= distance
        counts &= _differ_in(bits, table.differing)
        if counts.any():
            yield buckets.order[first[counts]], buckets.order[second[counts]]


def _pairs_in_large(
    ordered: Hashes, bucket: slice, table: BlockTable, distance: int, free: int
) -> Iterator[Pair]:
    """Yield the pairs of one large bucket.

    The bucket is divided again by the bits that its key does not have.
    """
    for first_in_bucket, second_in_bucket in near_pairs(
        ordered[bucket], distance, free & ~table.key
    ):
        first = bucket.start + first_in_bucket
        second = bucket.start + second_in_bucket
        # They are within the distance.
        counts = _differ_in(ordered[first] ^ ordered[second], table.differing)
        if counts.any():
            yield first[counts], second[counts]


def _differ_in(bits: Hashes, blocks: Sequence[int]) -> NDArray[np.bool_]:
    """Return which pairs, given by the bits in which they differ, differ in each of some blocks."""
    differ = np.ones(len(bits), bool)
    for block in blocks:
        differ &= (bits & np.uint64(block)) != 0
    return differ


def _all_pairs(hashes: Hashes, distance: int) -> Iterator[Pair]:
    """Compare each hash with all others: with the next one, with the one after that, and so on."""
    numbers = np.arange(len(hashes))
    for step in range(1, len(hashes)):
        is_near = count_ones(hashes[step:] ^ hashes[:-step]) <= distance
        if is_near.any():
            yield numbers[:-step][is_near], numbers[step:][is_near]


def _is_bucketing_cheaper(hashes: Hashes, blocks: Blocks) -> bool:
    """Return whether the buckets have fewer pairs than a direct comparison.

    Buckets of similar images may have more.
    """
    remaining = len(hashes) ** 2
    for table in block_tables(blocks):
        _, sizes = np.unique(hashes & np.uint64(table.key), return_counts=True)
        remaining -= int(np.square(sizes).sum())
        if remaining < 0:
            return False
    return True
