"""Pairs of hashes that differ in few bits, among those in memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]
Pair = tuple[Numbers, Numbers]

# Hashes that are compared directly.
_FEW = 512
# Hashes that are compared individually only if nothing else helps.
_MANY = 100_000
# Hashes of the same key, if they were spread evenly.
_BUCKET = 48
_MOST_TABLES = 5000
# Pairs that are compared at once.
_AT_ONCE = 1 << 20


def bits_of(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [bit for bit in range(64) if mask >> bit & 1]


def plan(count: int, free: int, distance: int) -> tuple[int, list[int]]:
    """Return the number m of blocks that have to be equal, and the blocks, which are masks of the ``free`` bits.

    Hashes within ``distance`` differ in at most that many of m + distance blocks, and are equal in
    m of them: Manku, Jain and Das Sarma, Detecting near-duplicates for web crawling, WWW 2007. A
    larger m makes smaller buckets, and more tables.
    """
    bits = bits_of(free)
    equal = 1
    while equal + 1 + distance <= len(bits):
        buckets = 2 ** (len(bits) * equal // (equal + distance))
        has_small_buckets = count <= _BUCKET * buckets
        if has_small_buckets or comb(equal + 1 + distance, distance) > _MOST_TABLES:
            break
        equal += 1
    blocks = [0] * (equal + distance)
    for number, bit in enumerate(bits):
        blocks[number * len(blocks) // len(bits)] |= 1 << bit
    return equal, blocks


def tables(equal: int, blocks: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield for each choice of ``equal`` blocks: their bits, and the unchosen blocks before the last chosen one.

    A pair may be found by several choices. It counts only for the first blocks in which it is
    equal, which is where it differs in all of these unchosen blocks.
    """
    for chosen in combinations(range(len(blocks)), equal):
        key = sum(blocks[number] for number in chosen)
        yield key, [blocks[number] for number in range(chosen[-1]) if number not in chosen]


def pairs(hashes: Hashes, distance: int, free: int = (1 << 64) - 1) -> Iterator[Pair]:
    """Yield (i, j), arrays of numbers of distinct hashes that differ in at most ``distance`` bits, each pair once.

    All hashes are equal except in the bits ``free``. Memory grows with the number of hashes, not of
    pairs.
    """
    if len(hashes) <= _FEW or free.bit_count() <= distance + 1:
        yield from _all_pairs(hashes, distance)
        return
    equal, blocks = plan(len(hashes), free, distance)
    if len(hashes) <= _MANY and not _pays(hashes, equal, blocks):
        yield from _all_pairs(hashes, distance)
        return
    for key, differing in tables(equal, blocks):
        yield from bucket_pairs(hashes, key, differing, distance, free)


def _pays(hashes: Hashes, equal: int, blocks: list[int]) -> bool:
    """Return whether the buckets have fewer pairs than a direct comparison; those of similar images may have more."""
    remaining = len(hashes) ** 2
    for key, _ in tables(equal, blocks):
        _keys, sizes = np.unique(hashes & np.uint64(key), return_counts=True)
        remaining -= int(np.square(sizes).sum())
        if remaining < 0:
            return False
    return True


def bucket_pairs(
    hashes: Hashes, key: int, differing: list[int], distance: int, free: int
) -> Iterator[Pair]:
    """Yield the pairs of hashes that are equal in the bits ``key`` and differ in each of the blocks ``differing``."""
    keys = hashes & np.uint64(key)
    order = np.argsort(keys, kind="stable")
    ordered, keys = hashes[order], keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    sizes = np.diff(starts, append=len(keys))
    is_large = sizes > _FEW
    for start, size in zip(starts[is_large].tolist(), sizes[is_large].tolist(), strict=True):
        for one, other in pairs(ordered[start : start + size], distance, free & ~key):
            yield from _checked(ordered, order, one + start, other + start, differing, 64)
    # All small buckets together: each hash with the next one, then with the one after that, up to
    # the end of its bucket.
    is_small = (sizes > 1) & ~is_large
    positions = np.flatnonzero(np.repeat(is_small, sizes))
    ends = np.repeat(starts + sizes, sizes)[positions]
    for step in range(1, _FEW):
        has_partner = positions + step < ends
        positions, ends = positions[has_partner], ends[has_partner]
        if not len(positions):
            break
        for start in range(0, len(positions), _AT_ONCE):
            part = positions[start : start + _AT_ONCE]
            yield from _checked(ordered, order, part, part + step, differing, distance)


def _checked(
    ordered: Hashes,
    order: Numbers,
    one: Numbers,
    other: Numbers,
    differing: list[int],
    distance: int,
) -> Iterator[Pair]:
    """Yield those pairs of positions that are within the distance and differ in each of some blocks, as numbers."""
    bits = ordered[one] ^ ordered[other]
    fits = count_ones(bits) <= distance if distance < 64 else np.ones(len(bits), bool)
    for block in differing:
        fits &= (bits & np.uint64(block)) != 0
    if fits.any():
        yield order[one[fits]], order[other[fits]]


def _all_pairs(hashes: Hashes, distance: int) -> Iterator[Pair]:
    """Compare all pairs of hashes."""
    numbers = np.arange(len(hashes))
    for step in range(1, len(hashes)):
        near = count_ones(hashes[step:] ^ hashes[:-step]) <= distance
        if near.any():
            yield numbers[:-step][near], numbers[step:][near]


def count_ones(values: Hashes) -> NDArray[np.uint8]:
    """Return the number of bits that are set in each value."""
    # From numpy 2 on.
    if hasattr(np, "bitwise_count"):
        ones: NDArray[np.uint8] = np.bitwise_count(values)
        return ones
    values = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    values = (values & np.uint64(0x3333333333333333)) + (
        (values >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    values = (values + (values >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((values * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)
