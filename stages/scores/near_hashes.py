"""An index of hashes that differ in few bits, among more than fit into memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from wdsflow.tables import Tables

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
# Pairs.
_AT_ONCE = 1 << 20


def bits_of(mask: int) -> list[int]:
    """Return the places of the bits that are set."""
    return [bit for bit in range(64) if mask >> bit & 1]


def plan(count: int, free: int, distance: int) -> tuple[int, list[int]]:
    """Return the number m of blocks that have to be equal, and the blocks, which are masks of the ``free`` bits.

    Hashes within ``distance`` differ in at most that many of m + distance blocks, and are equal in
    m of them: Manku, Jain and Das Sarma, Detecting near-duplicates for web crawling, WWW 2007. A
    larger m makes smaller buckets, and more tables.
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
    rest = len(hashes) ** 2
    for key, _ in tables(equal, blocks):
        sizes = np.unique(hashes & np.uint64(key), return_counts=True)[1]
        rest -= int(np.square(sizes).sum())
        if rest < 0:
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
    for start, size in zip(
        starts[sizes > _FEW].tolist(), sizes[sizes > _FEW].tolist(), strict=True
    ):
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
    ordered: Hashes,
    order: Numbers,
    one: Numbers,
    other: Numbers,
    differing: list[int],
    distance: int,
) -> Iterator[Pair]:
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


# Bytes of all memory for a hash while pairs are looked for.
_COST = 1 << 10
# That are added at once.
_PAIRS = 1 << 16
_ALL = (1 << 64) - 1
_CHUNK = "SELECT {1} FROM {0} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"


def kept(database: Tables, distance: int, memory: int) -> bytearray:
    """Return 1 for each hash to keep, by number, 0 for those within ``distance`` of an earlier one that is kept.

    The result takes one byte per hash, in addition to ``memory``. The table ``hashes`` of the
    database has distinct hashes, whose rowids are their numbers.
    """
    count: int = database.one("SELECT count(*) FROM hashes")[0]
    result = bytearray(b"\1") * count
    if not distance or not count:
        return result
    database.run("CREATE TABLE pairs (later UINTEGER, earlier UINTEGER)")
    held, size = list[Pair](), 0
    for pair in _pairs(database, count, distance, max(1 << 8, memory // _COST)):
        held.append(pair)
        size += len(pair[0])
        if size >= _PAIRS:
            _add(database, held)
            held, size = [], 0
    _add(database, held)
    # In this order, each earlier hash is decided before its pairs are read.
    for later, earlier in database.rows("SELECT later, earlier FROM pairs ORDER BY later, earlier"):
        if result[earlier]:
            result[later] = 0
    return result


def _add(database: Tables, held: list[Pair]) -> None:
    if held:
        one, other = (np.concatenate(side).astype(np.uint32) for side in zip(*held, strict=True))
        database.add("pairs", later=np.maximum(one, other), earlier=np.minimum(one, other))


def _pairs(database: Tables, count: int, distance: int, most: int) -> Iterator[Pair]:
    if count <= most:
        yield from pairs(
            database.arrays(_CHUNK.format("hashes", "hash"), 0, count)["hash"], distance
        )
        return
    equal, blocks = plan(count, _ALL, distance)
    for key, differing in tables(equal, blocks):
        database.run(
            "CREATE OR REPLACE TABLE ordered AS SELECT hash, rowid AS number FROM hashes ORDER BY hash & ?::UBIGINT",
            key,
        )
        for hashes, numbers in _buckets(database, count, key, most):
            for one, other in bucket_pairs(hashes, key, differing, distance, _ALL):
                yield numbers[one], numbers[other]


def _buckets(database: Tables, count: int, key: int, most: int) -> Iterator[tuple[Hashes, Numbers]]:
    """Yield neighbouring hashes of ``ordered``, and their numbers; those that are equal in the bits ``key`` are together."""
    hashes, numbers = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for start in range(0, count, most):
        found = database.arrays(_CHUNK.format("ordered", "hash, number"), start, start + most)
        hashes, numbers = (
            np.concatenate([hashes, found["hash"]]),
            np.concatenate([numbers, found["number"]]),
        )
        keys = hashes & np.uint64(key)
        end = int(np.searchsorted(keys, keys[-1])) if start + most < count else len(keys)
        if end:
            yield hashes[:end], numbers[:end]
            hashes, numbers = hashes[end:], numbers[end:]
