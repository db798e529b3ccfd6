"""Which of many hashes to keep so that no two that are kept are near each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import CELL
from .near_groups import Hashes, Pair, bucket_pairs, pairs, plan, tables
from .spill import Rows, Spill

_COST = 128  # bytes a hash while pairs are looked for
_PARTS = 256
_ALL = (1 << 64) - 1
_NUMBERED: np.dtype[Any] = np.dtype([("hash", "<u8"), ("number", "<u4")])
_PAIR: np.dtype[Any] = np.dtype([("later", "<u4"), ("earlier", "<u4")])


class Distinct:
    """Distinct hashes in a file, in the order of their first places; their numbers count from 0 in that order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0

    def add(self, rows: Rows) -> None:
        """Add rows of CELL, all behind those that are there."""
        with self._path.open("ab") as file:
            file.write(rows.tobytes())
        self.count += len(rows)

    def chunks(self, most: int) -> Iterator[tuple[int, Rows]]:
        """Yield rows, at most ``most`` at a time, and the number of the first of them."""
        for start in range(0, self.count, most):
            yield start, np.fromfile(self._path, CELL, most, offset=start * CELL.itemsize)


def kept(distinct: Distinct, distance: int, folder: Path, memory: int) -> bytearray:
    """Return 1 for each hash to keep, in order: those of which no earlier one that is kept is within ``distance``.

    One byte a hash, beside ``memory``. What is not kept has a neighbour that is.
    """
    found = Spill(folder, "pairs", _PAIR, _PARTS, memory // 4)
    if distance:
        for one, other in _pairs(distinct, distance, folder, memory // 2):
            rows = np.zeros(len(one), _PAIR)
            rows["later"], rows["earlier"] = np.maximum(one, other), np.minimum(one, other)
            found.add(rows, rows["later"].astype(np.int64) * _PARTS // distinct.count)
    result = bytearray(b"\1") * distinct.count
    for part in range(_PARTS):
        rows = found.take(part)
        rows = rows[np.argsort(rows["later"], kind="stable")]
        # In this order each earlier one is settled before it is asked for.
        for later, earlier in zip(rows["later"].tolist(), rows["earlier"].tolist(), strict=True):
            if result[earlier]:
                result[later] = 0
    return result


def _pairs(distinct: Distinct, distance: int, folder: Path, memory: int) -> Iterator[Pair]:
    most = max(1 << 8, memory // _COST)
    if distinct.count <= most:
        hashes: Hashes = np.concatenate([np.zeros(0, np.uint64), *(rows["high"] for _, rows in distinct.chunks(most))])
        yield from pairs(hashes, distance)
        return
    equal, blocks = plan(distinct.count, _ALL, distance)
    for key, differing in tables(equal, blocks):
        spill = Spill(folder, "table", _NUMBERED, 2 * distinct.count // most + 1, memory // 4)
        for start, rows in distinct.chunks(most):
            numbered = np.zeros(len(rows), _NUMBERED)
            numbered["hash"], numbered["number"] = rows["high"], np.arange(start, start + len(rows))
            spill.add(numbered, _spread(rows["high"] & np.uint64(key), spill.parts))
        for part in range(spill.parts):
            rows = spill.take(part)
            if len(rows):
                for one, other in bucket_pairs(rows["hash"], key, differing, distance, _ALL):
                    yield rows["number"][one], rows["number"][other]


def _spread(keys: Hashes, parts: int) -> NDArray[Any]:
    """Return a part for each key, the same for the same."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing, as in groups
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)
