"""All pairs of 64-bit hashes that differ in few bits."""

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Pair = tuple[NDArray[Any], NDArray[Any]]

_FEW = 512  # hashes that are compared with each other without more ado
_MANY = 100_000  # hashes that are never compared with each other one by one, if that can be helped
_BUCKET = 48  # hashes of the same key, if they were spread evenly
_MOST_TABLES = 5000
_AT_ONCE = 1 << 20  # pairs


def bits_of(mask: int) -> list[int]:
    """Return the places of the bits that are set."""
    return [bit for bit in range(64) if mask >> bit & 1]


def plan(count: int, free: int, distance: int) -> tuple[int, list[int]]:
    """Return how many of how many blocks (masks of the ``free`` bits) have to be equal.

    Hashes within ``distance`` differ in at most so many of b = m + distance blocks, thus are equal in m of them: Manku,
    Jain and Das Sarma, Detecting near-duplicates for web crawling, WWW 2007. A larger m gives smaller buckets, and
    more tables.
    """
    bits = bits_of(free)
    equal = 1
    while (
        equal + 1 + distance <= len(bits)
        and count > _BUCKET * 2 ** (len(bits) * equal // (equal + distance))
        and comb(equal + 1 + distance, distance) <= _MOST_TABLES
    ):
        equal += 1
    blocks = [0] * (equal + distance)
    for number, bit in enumerate(bits):
        blocks[number * len(blocks) // len(bits)] |= 1 << bit
    return equal, blocks


def tables(equal: int, blocks: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield for each choice of ``equal`` blocks: their bits, and the blocks before the last of them that are not chosen.

    A pair is found by several choices. It counts in that of the first blocks in which it is equal: where the blocks
    of the second part all differ.
    """
    for chosen in combinations(range(len(blocks)), equal):
        key = sum(blocks[number] for number in chosen)
        yield key, [blocks[number] for number in range(chosen[-1]) if number not in chosen]


def pairs(hashes: Hashes, distance: int, free: int = (1 << 64) - 1) -> Iterator[Pair]:
    """Yield (i, j), arrays of numbers of distinct hashes that differ in at most ``distance`` bits, each pair once.

    ``free`` are the bits in which they may differ at all. Memory grows with the number of hashes, not of pairs.
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
    """Return whether the buckets of all tables hold fewer pairs than there are: those of alike images may hold more."""
    rest = len(hashes) ** 2
    for key, _ in tables(equal, blocks):
        sizes = np.unique(hashes & np.uint64(key), return_counts=True)[1]
        rest -= int(np.square(sizes).sum())
        if rest < 0:
            return False
    return True


def bucket_pairs(hashes: Hashes, key: int, differing: list[int], distance: int, free: int) -> Iterator[Pair]:
    """Yield the pairs of hashes that are equal in the bits ``key`` and differ in each of the blocks ``differing``."""
    keys = hashes & np.uint64(key)
    order = np.argsort(keys, kind="stable")
    ordered, keys = hashes[order], keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    sizes = np.diff(starts, append=len(keys))
    for start, size in zip(starts[sizes > _FEW].tolist(), sizes[sizes > _FEW].tolist(), strict=True):
        for one, other in pairs(ordered[start : start + size], distance, free & ~key):
            yield from _checked(ordered, order, one + start, other + start, differing, 64)
    small = (sizes > 1) & (sizes <= _FEW)
    here = np.arange(len(keys))[np.repeat(small, sizes)]
    ends = np.repeat(starts + sizes, sizes)[here] if len(here) else here
    for step in range(1, _FEW):
        more = here + step < ends
        here, ends = here[more], ends[more]
        if not len(here):
            break
        for start in range(0, len(here), _AT_ONCE):
            part = here[start : start + _AT_ONCE]
            yield from _checked(ordered, order, part, part + step, differing, distance)


def _checked(
    ordered: Hashes, order: NDArray[Any], one: NDArray[Any], other: NDArray[Any], differing: list[int], distance: int
) -> Iterator[Pair]:
    bits = ordered[one] ^ ordered[other]
    fits = count_ones(bits) <= distance if distance < 64 else np.ones(len(bits), bool)
    for block in differing:
        fits &= (bits & np.uint64(block)) != 0
    if fits.any():
        yield order[one[fits]], order[other[fits]]


def _all_pairs(hashes: Hashes, distance: int) -> Iterator[Pair]:
    """Compare each hash with each other."""
    numbers = np.arange(len(hashes))
    for step in range(1, len(hashes)):
        near = count_ones(hashes[step:] ^ hashes[:-step]) <= distance
        if near.any():
            yield numbers[:-step][near], numbers[step:][near]


def count_ones(values: Hashes) -> NDArray[np.uint8]:
    """Return the number of bits that are set in each value."""
    if hasattr(np, "bitwise_count"):  # from numpy 2 on
        ones: NDArray[np.uint8] = np.bitwise_count(values)
        return ones
    values = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    values = (values & np.uint64(0x3333333333333333)) + ((values >> np.uint64(2)) & np.uint64(0x3333333333333333))
    values = (values + (values >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((values * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)
