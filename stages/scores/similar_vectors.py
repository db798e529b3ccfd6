"""Finds vectors that point in nearly the same direction, among more than fit into memory.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from .vector_file import Numbers, VectorFile, Vectors

# Vectors that need no clusters.
_ALONE = 10_000
# Of k-means.
_ROUNDS = 10
# Vectors for each centroid from which k-means learns.
_LEARNT = 64
# Vectors that are compared at a time.
_BLOCK = 1024
# Bytes of products that are computed at a time.
_BATCH = 64 << 20
# After the last location.
_NO_LOCATION = np.uint64(2**64 - 1)


def duplicates(
    file: VectorFile, eps: float, keep: str, memory: int
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield for each location, in order, which of its vectors have a cosine of more than 1 - eps to one that stays.

    Only vectors of the same cluster are compared, in the order of ``keep``: "first" is that of the
    set, "hardest" begins with the one farthest from the centroid, "easiest" with the nearest.
    """
    if not len(file):
        return
    are_duplicates = np.zeros(len(file), bool)
    clusters, cosines = _clustered(file, centroids_of(file, memory))
    if keep == "hardest":
        rank = cosines
    elif keep == "easiest":
        rank = -cosines
    else:
        rank = np.zeros_like(cosines)
    # By cluster, then by rank; the last digits of products differ between processors.
    order = np.lexsort((np.arange(len(file)), np.round(rank, 5), clusters))
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        are_duplicates[members] = _near_earlier(file, members, np.float32(1 - eps))
    start = 0
    for last in np.flatnonzero(np.diff(file.locations, append=_NO_LOCATION)):
        yield int(file.locations[start]), are_duplicates[start : last + 1]
        start = int(last) + 1


def centroids_of(file: VectorFile, memory: int) -> Vectors:
    """Return the centroids of spherical k-means, k the square root of the number of vectors; one for up to 10,000.

    Learnt from vectors that are evenly spaced in the set, and begun with such, as many as three
    copies of which fit into ``memory`` bytes. Deterministic.
    """
    fit = max(1, memory // (3 * 4 * file.dimensions))
    count = 1 if len(file) <= _ALONE else min(isqrt(len(file)), fit)
    learnt = _evenly_spaced(len(file), min(len(file), _LEARNT * count, fit))
    vectors = file.take(np.unique(learnt))
    centroids = vectors[_evenly_spaced(len(vectors), count)]
    for _ in range(_ROUNDS):
        nearest = nearest_of(vectors, centroids)
        order = np.argsort(nearest, kind="stable")
        # A centroid that is the nearest one of no vector stays.
        used, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
        lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        before = centroids.copy()
        centroids[used] = (sums / lengths).astype(np.float32)
        if np.array_equal(before, centroids):
            break
    return centroids


def nearest_of(vectors: Vectors, centroids: Vectors) -> Numbers:
    """Return the number of the nearest centroid of each vector."""
    nearest = np.empty(len(vectors), np.int64)
    step = max(1, _BATCH // (4 * len(centroids)))
    for start in range(0, len(vectors), step):
        products = vectors[start : start + step] @ centroids.T
        nearest[start : start + step] = products.argmax(1)
    return nearest


def _clustered(file: VectorFile, centroids: Vectors) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the number of the nearest centroid of each vector, and their cosine."""
    clusters = np.empty(len(file), np.int64)
    cosines = np.empty(len(file), np.float32)
    step = max(1, _BATCH // (4 * file.dimensions))
    for start in range(0, len(file), step):
        vectors = file.take(slice(start, start + step))
        nearest = nearest_of(vectors, centroids)
        clusters[start : start + step] = nearest
        cosines[start : start + step] = np.einsum("ij,ij->i", vectors, centroids[nearest])
    return clusters, cosines


def _near_earlier(file: VectorFile, members: Numbers, least: np.float32) -> NDArray[np.bool_]:
    """Return which vectors have a cosine of more than ``least`` to an earlier one that has no such itself."""
    near = np.zeros(len(members), bool)
    # Blocks of vectors that stay.
    kept: list[Vectors] = []
    for start in range(0, len(members), _BLOCK):
        vectors = file.take(members[start : start + _BLOCK])
        is_open = np.ones(len(vectors), bool)
        for earlier in kept:
            is_open[is_open] = (vectors[is_open] @ earlier.T).max(1, initial=-1) <= least
        remaining = np.flatnonzero(is_open)
        alike = vectors[remaining] @ vectors[remaining].T > least
        stays = np.zeros(len(remaining), bool)
        # Within the block, one after the other.
        for number in range(len(remaining)):
            stays[number] = not (alike[number, :number] & stays[:number]).any()
        near[start : start + len(vectors)] = True
        near[start + remaining[stays]] = False
        kept.append(vectors[remaining[stays]])
    return near


def _evenly_spaced(length: int, count: int) -> Numbers:
    """Return ``count`` numbers from 0 to ``length`` - 1."""
    return np.linspace(0, length - 1, count).astype(np.int64)
