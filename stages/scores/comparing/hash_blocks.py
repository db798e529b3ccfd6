"""Blocks of bits by which near hashes are found.

Two hashes that differ in few bits are equal in some blocks.

Hashes within a distance of d bits differ in at most d of m + d blocks, and are equal in m of them:
Manku, Jain and Das Sarma, Detecting near-duplicates for web crawling, WWW 2007. For each choice of
m blocks there is a table, in which hashes with equal blocks are neighbours. A larger m makes
smaller groups of neighbours, and more tables.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

from .hash_bits import bits_of

# Hashes of the same key, if they were spread evenly.
_BUCKET = 48
_MOST_TABLES = 5000


class Blocks(NamedTuple):
    """All blocks, which are masks, and how many of them have to be equal."""

    equal: int
    masks: list[int]


class BlockTable(NamedTuple):
    """One choice of blocks that have to be equal.

    A pair may be found by several choices. It counts only for the first blocks in which it is
    equal, which is where it differs in all blocks ``differing``.
    """

    # The bits of the chosen blocks.
    key: int
    # The unchosen blocks before the last chosen one.
    differing: list[int]


def plan_blocks(count: int, free: int, distance: int) -> Blocks:
    """Return the blocks for comparing ``count`` hashes up to a distance.

    The blocks divide the bits ``free``.
    """
    bits = bits_of(free)
    equal = 1
    while equal + 1 + distance <= len(bits):
        buckets = 2 ** (len(bits) * equal // (equal + distance))
        has_small_buckets = count <= _BUCKET * buckets
        next_tables = comb(equal + 1 + distance, distance)
        if has_small_buckets or next_tables > _MOST_TABLES:
            break
        equal += 1
    masks = [0] * (equal + distance)
    for number, bit in enumerate(bits):
        block = number * len(masks) // len(bits)
        masks[block] |= 1 << bit
    return Blocks(equal, masks)


def block_tables(blocks: Blocks) -> Iterator[BlockTable]:
    """Yield a table for each choice of blocks."""
    for chosen in combinations(range(len(blocks.masks)), blocks.equal):
        key = sum(blocks.masks[number] for number in chosen)
        unchosen = [number for number in range(chosen[-1]) if number not in chosen]
        yield BlockTable(key, [blocks.masks[number] for number in unchosen])
