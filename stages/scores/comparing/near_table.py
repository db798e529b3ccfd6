"""Finds the hashes of a table to keep so that none is near an earlier kept one.

The table may be larger than the memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator

import numpy as np

from wdsflow.tables import Tables

from .hash_bits import Hashes
from .hash_blocks import block_tables, plan_blocks
from .hash_buckets import Numbers, Pair
from .near_hashes import bucket_pairs, near_pairs

# Bytes of all memory for a hash while pairs are computed.
_COST = 1 << 10
_LEAST_HASHES = 1 << 8
# Pairs that are added to the table at once.
_PAIRS = 1 << 16
_ALL_BITS = (1 << 64) - 1
_CHUNK = "SELECT {1} FROM {0} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"


def kept_hashes(database: Tables, distance: int, memory: int) -> bytearray:
    """Return 1 for each hash to keep, by number, and 0 for the others.

    The others are within ``distance`` of an earlier one that is kept.

    The result takes one byte per hash, in addition to ``memory``. The table ``hashes`` of the
    database has distinct hashes, whose rowids are their numbers.
    """
    count: int = database.one("SELECT count(*) FROM hashes")[0]
    result = bytearray(b"\1") * count
    if not distance or not count:
        return result
    database.run("CREATE TABLE pairs (later UINTEGER, earlier UINTEGER)")
    waiting: list[Pair] = []
    size = 0
    for pair in _pairs(database, count, distance, max(_LEAST_HASHES, memory // _COST)):
        waiting.append(pair)
        size += len(pair[0])
        if size >= _PAIRS:
            _add_kept(database, waiting)
            waiting = []
            size = 0
    _add_kept(database, waiting)
    # In this order, each earlier hash is decided before its pairs are read.
    for later, earlier in database.rows("SELECT later, earlier FROM pairs ORDER BY later, earlier"):
        if result[earlier]:
            result[later] = 0
    return result


def _add_kept(database: Tables, waiting: list[Pair]) -> None:
    if not waiting:
        return
    one = np.concatenate([pair[0] for pair in waiting]).astype(np.uint32)
    other = np.concatenate([pair[1] for pair in waiting]).astype(np.uint32)
    database.add("pairs", later=np.maximum(one, other), earlier=np.minimum(one, other))


def _pairs(database: Tables, count: int, distance: int, most: int) -> Iterator[Pair]:
    """Yield the numbers of hashes within the distance, with at most ``most`` hashes in memory."""
    if count <= most:
        columns = database.arrays(_CHUNK.format("hashes", "hash"), 0, count)
        yield from near_pairs(columns["hash"], distance)
        return
    for table in block_tables(plan_blocks(count, _ALL_BITS, distance)):
        database.run(
            "CREATE OR REPLACE TABLE ordered AS SELECT hash, rowid AS number FROM hashes ORDER BY hash & ?::UBIGINT",
            table.key,
        )
        for hashes, numbers in _buckets(database, count, table.key, most):
            for one, other in bucket_pairs(hashes, table, distance, _ALL_BITS):
                yield numbers[one], numbers[other]


def _buckets(database: Tables, count: int, key: int, most: int) -> Iterator[tuple[Hashes, Numbers]]:
    """Yield runs of hashes of the table ``ordered``, with their numbers.

    Hashes that are equal in the bits ``key`` are in the same run.
    """
    hashes = np.zeros(0, np.uint64)
    numbers = np.zeros(0, np.int64)
    for start in range(0, count, most):
        chunk = database.arrays(_CHUNK.format("ordered", "hash, number"), start, start + most)
        hashes = np.concatenate([hashes, chunk["hash"]])
        numbers = np.concatenate([numbers, chunk["number"]])
        end = len(hashes)
        if start + most < count:
            # The last bucket may continue in the next chunk.
            keys = hashes & np.uint64(key)
            end = int(np.searchsorted(keys, keys[-1]))
        if end:
            yield hashes[:end], numbers[:end]
            hashes = hashes[end:]
            numbers = numbers[end:]
