"""Finds vectors that point in nearly the same direction, among more than fit into memory.

Imports numpy: import this module where it is needed.
"""

from array import array
from collections.abc import Iterator
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .base import Records

# (n, dimensions), of length 1.
Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]

# Vectors that need no clusters.
_ALONE = 10_000
# Of k-means.
_ROUNDS = 10
# Vectors for each centroid from which k-means learns.
_LEARNT = 64
# Vectors that are compared at a time.
_AT_ONCE = 1024
# Bytes of products that are computed at a time.
_BATCH = 64 << 20


class VectorFile:
    """Vectors of half floats in a file, in the order of their places."""

    def __init__(self, path: Path, records: Records) -> None:
        """Write the records, of (shard, sample, vectors one after the other). Raises ValueError if lengths differ."""
        places, items, self.dimensions = array("Q"), array("q"), 0
        with path.open("wb") as file:
            for shard, sample, data in records:
                count = int.from_bytes(data[:2], "little")
                size, rest = divmod((len(data) - 2) // 2, count or 1)
                if not count or rest or (self.dimensions and size != self.dimensions):
                    raise ValueError(
                        f"the record of sample {sample} of shard {shard} has {len(data)} bytes: was it cut?"
                    )
                self.dimensions = size
                file.write(data[2:])
                places.extend([shard << 32 | sample] * count)
                items.extend(range(count))
        self.places = np.array(places, np.uint64)
        # The same for any order of the records.
        self._order = np.lexsort((np.array(items, np.int64), self.places))
        self.places = self.places[self._order]
        self._data = (
            np.memmap(path, "<f2", "r", shape=(len(places), self.dimensions)) if places else None
        )

    def __len__(self) -> int:
        return len(self.places)

    def take(self, numbers: "Numbers | slice") -> Vectors:
        """Return some vectors, of length 1."""
        assert self._data is not None
        found: Vectors = self._data[self._order[numbers]].astype(np.float32)
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))
        return found


def packed(vectors: "list[NDArray[np.float32]]") -> bytes:
    """Return a record of ``VectorFile``: the number of vectors in two bytes, and half floats."""
    return len(vectors).to_bytes(2, "little") + b"".join(
        each.astype("<f2").tobytes() for each in vectors
    )


def centroids_of(file: VectorFile, memory: int) -> Vectors:
    """Return the centroids of spherical k-means, k the square root of the number of vectors; one for up to 10,000.

    Learnt from vectors that are evenly spaced in the set, and begun with such, as many as three
    copies of which fit into ``memory`` bytes. Deterministic.
    """
    fit = max(1, memory // (3 * 4 * file.dimensions))
    count = 1 if len(file) <= _ALONE else min(isqrt(len(file)), fit)
    chosen = np.unique(
        np.linspace(0, len(file) - 1, min(len(file), _LEARNT * count, fit)).astype(np.int64)
    )
    vectors = file.take(chosen)
    centroids = vectors[np.linspace(0, len(vectors) - 1, count).astype(np.int64)]
    for _ in range(_ROUNDS):
        nearest = nearest_of(vectors, centroids)
        order = np.argsort(nearest, kind="stable")
        there, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
        before = centroids.copy()
        centroids[there] = (
            sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        ).astype(np.float32)
        if np.array_equal(before, centroids):
            break
    return centroids


def nearest_of(vectors: Vectors, centroids: Vectors) -> Numbers:
    """Return the number of the nearest centroid of each vector."""
    found = np.empty(len(vectors), np.int64)
    step = max(1, _BATCH // (4 * len(centroids)))
    for start in range(0, len(vectors), step):
        found[start : start + step] = (vectors[start : start + step] @ centroids.T).argmax(1)
    return found


def duplicates(
    file: VectorFile, eps: float, keep: str, memory: int
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield for each place, in order, which of its vectors have a cosine of more than 1 - eps to one that stays.

    Only vectors of the same cluster are compared, in the order of ``keep``: "first" is that of the
    set, "hardest" begins with the one farthest from the centroid, "easiest" with the nearest.
    """
    result = np.zeros(len(file), bool)
    if len(file):
        centroids = centroids_of(file, memory)
        nearest, cosines = np.empty(len(file), np.int64), np.empty(len(file), np.float32)
        step = max(1, _BATCH // (4 * file.dimensions))
        for start in range(0, len(file), step):
            vectors = file.take(slice(start, start + step))
            nearest[start : start + step] = found = nearest_of(vectors, centroids)
            cosines[start : start + step] = np.einsum("ij,ij->i", vectors, centroids[found])
        rank = {"first": np.zeros_like(cosines), "hardest": cosines, "easiest": -cosines}[keep]
        order = np.lexsort((np.arange(len(file)), np.round(rank, 5), nearest))
        starts = np.flatnonzero(np.diff(nearest[order], prepend=-1))
        for members in np.split(order, starts[1:]):
            result[members] = _near_earlier(file, members, np.float32(1 - eps))
    ends = np.flatnonzero(np.diff(file.places, append=np.uint64(2**64 - 1)))
    for start, end in zip([0, *(ends[:-1] + 1)], ends + 1, strict=True) if len(file) else ():
        yield int(file.places[start]), result[start:end]


def _near_earlier(file: VectorFile, members: Numbers, least: np.float32) -> NDArray[np.bool_]:
    """Return which vectors have a cosine of more than ``least`` to an earlier one that has no such itself."""
    near, kept = np.zeros(len(members), bool), list[Vectors]()
    for start in range(0, len(members), _AT_ONCE):
        vectors = file.take(members[start : start + _AT_ONCE])
        open_ = np.ones(len(vectors), bool)
        for some in kept:
            open_[open_] = (vectors[open_] @ some.T).max(1, initial=-1) <= least
        left = np.flatnonzero(open_)
        alike = vectors[left] @ vectors[left].T > least
        stays = np.zeros(len(left), bool)
        # Of this block, one after the other.
        for number in range(len(left)):
            stays[number] = not (alike[number, :number] & stays[:number]).any()
        near[start : start + len(vectors)] = True
        near[start + left[stays]] = False
        kept.append(vectors[left[stays]])
    return near
