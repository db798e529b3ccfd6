"""Centroids of vectors, by spherical k-means on a part of them.

Imports numpy: import this module where it is needed.
"""

from math import isqrt

import numpy as np

from .vector_file import Numbers, VectorFile, Vectors

# Bytes of products that are computed at a time.
BATCH = 64 << 20
# Vectors that need no clusters.
_ALONE = 10_000
# Of k-means.
_ROUNDS = 10
# Vectors for each centroid from which k-means learns.
_LEARNT = 64


def centroids_of(file: VectorFile, memory: int) -> Vectors:
    """Return the centroids of spherical k-means.

    Their number is the square root of the number of vectors, and 1 for up to 10,000 vectors.

    Learnt from vectors that are evenly spaced in the set, and begun with such, as many as three
    copies of which fit into ``memory`` bytes. Deterministic.
    """
    total = len(file)
    bytes_of_vector = 4 * file.dimensions
    # Three copies of each vector are in memory at once.
    most = max(1, memory // (3 * bytes_of_vector))
    count = 1
    if total > _ALONE:
        count = min(isqrt(total), most)
    learnt = min(total, _LEARNT * count, most)
    vectors = file.read_unit_vectors(np.unique(_evenly_spaced(total, learnt)))
    centroids = vectors[_evenly_spaced(len(vectors), count)]
    for _ in range(_ROUNDS):
        moved = _moved(centroids, vectors)
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return centroids


def nearest_of(vectors: Vectors, centroids: Vectors) -> Numbers:
    """Return the number of the nearest centroid of each vector."""
    nearest = np.empty(len(vectors), np.int64)
    step = max(1, BATCH // (4 * len(centroids)))
    for start in range(0, len(vectors), step):
        products = vectors[start : start + step] @ centroids.T
        nearest[start : start + step] = products.argmax(1)
    return nearest


def _moved(centroids: Vectors, vectors: Vectors) -> Vectors:
    """Return the centroids, each moved to the mean direction of its nearest vectors.

    These are the vectors that have it as their nearest centroid. A centroid without any stays.
    """
    nearest = nearest_of(vectors, centroids)
    order = np.argsort(nearest, kind="stable")
    # A centroid that is the nearest one of no vector stays.
    used, starts = np.unique(nearest[order], return_index=True)
    sums = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    # Vectors may add up to zero.
    directions = sums / np.maximum(lengths, 1e-12)
    moved = centroids.copy()
    moved[used] = directions.astype(np.float32)
    return moved


def _evenly_spaced(length: int, count: int) -> Numbers:
    """Return ``count`` numbers from 0 to ``length`` - 1."""
    return np.linspace(0, length - 1, count).astype(np.int64)
