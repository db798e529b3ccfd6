"""Which of many hashes to keep so that no two that are kept are near each other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsflow.tables import Tables

from .near_groups import Pair, bucket_pairs, pairs, plan, tables

_COST = 1 << 10  # bytes of all memory for a hash while pairs are looked for
_PAIRS = 1 << 16  # that are added at once
_ALL = (1 << 64) - 1
_CHUNK = "SELECT {1} FROM {0} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"


def kept(database: Tables, distance: int, memory: int) -> bytearray:
    """Return 1 for each hash to keep, by number: those of which no earlier one that is kept is within ``distance``.

    One byte a hash, beside ``memory``. What is not kept has a neighbour that is. The table ``hashes`` of the database
    has distinct hashes, whose rowids are their numbers.
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
    # In this order each earlier one is settled before it is asked for.
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
        yield from pairs(database.arrays(_CHUNK.format("hashes", "hash"), 0, count)["hash"], distance)
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


def _buckets(database: Tables, count: int, key: int, most: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield neighbouring hashes of ``ordered``, and their numbers; those that are equal in the bits ``key`` are together."""
    hashes, numbers = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for start in range(0, count, most):
        found = database.arrays(_CHUNK.format("ordered", "hash, number"), start, start + most)
        hashes, numbers = np.concatenate([hashes, found["hash"]]), np.concatenate([numbers, found["number"]])
        keys = hashes & np.uint64(key)
        end = int(np.searchsorted(keys, keys[-1])) if start + most < count else len(keys)
        if end:
            yield hashes[:end], numbers[:end]
            hashes, numbers = hashes[end:], numbers[end:]
