"""Finds vectors that point in nearly the same direction, among more than fit into memory.

The vectors are divided into clusters, by ``centroids``, and only vectors of the same cluster are
compared. Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .centroids import BATCH, centroids_of, nearest_of
from .vector_file import Numbers, VectorFile, Vectors

# Vectors that are compared at a time.
_BLOCK = 1024
# After the last location.
_NO_LOCATION = np.uint64(2**64 - 1)


class _Clusters(NamedTuple):
    """The number of the nearest centroid of each vector, and the cosine between them."""

    numbers: Numbers
    cosines: NDArray[np.float32]


def duplicates(
    file: VectorFile, eps: float, keep: str, memory: int
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield for each location, in order, which of its vectors are duplicates.

    A duplicate has a cosine of more than 1 - eps to a vector that is kept.

    Only vectors of the same cluster are compared, in the order of ``keep``: "first" is that of the
    set, "hardest" begins with the one farthest from the centroid, "easiest" with the nearest.
    """
    if not len(file):
        return
    clusters = _clustered(file, centroids_of(file, memory))
    least = np.float32(1 - eps)
    are_duplicates = np.zeros(len(file), bool)
    order = _order(clusters, keep)
    # Where in this order each cluster begins.
    starts = np.flatnonzero(np.diff(clusters.numbers[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        are_duplicates[members] = _near_earlier(file, members, least)
    # The vectors of a location are neighbours.
    start = 0
    for last in np.flatnonzero(np.diff(file.locations, append=_NO_LOCATION)):
        yield int(file.locations[start]), are_duplicates[start : last + 1]
        start = int(last) + 1


def _order(clusters: _Clusters, keep: str) -> Numbers:
    """Return the numbers of the vectors by cluster.

    Within a cluster, the vectors to keep come first.
    """
    if keep == "hardest":
        rank = clusters.cosines
    elif keep == "easiest":
        rank = -clusters.cosines
    else:
        rank = np.zeros_like(clusters.cosines)
    # The last digits of products differ between processors.
    rounded = np.round(rank, 5)
    numbers = np.arange(len(rank))
    return np.lexsort((numbers, rounded, clusters.numbers))


def _clustered(file: VectorFile, centroids: Vectors) -> _Clusters:
    """Return the cluster of each vector."""
    numbers = np.empty(len(file), np.int64)
    cosines = np.empty(len(file), np.float32)
    step = max(1, BATCH // (4 * file.dimensions))
    for start in range(0, len(file), step):
        part = slice(start, start + step)
        vectors = file.read_unit_vectors(part)
        nearest = nearest_of(vectors, centroids)
        numbers[part] = nearest
        cosines[part] = np.einsum("ij,ij->i", vectors, centroids[nearest])
    return _Clusters(numbers, cosines)


def _near_earlier(file: VectorFile, members: Numbers, least: np.float32) -> NDArray[np.bool_]:
    """Return which vectors have a cosine of more than ``least`` to an earlier one that stays.

    A vector stays if it has no such cosine itself.
    """
    near = np.zeros(len(members), bool)
    # Vectors that stay, block by block.
    kept: list[Vectors] = []
    for start in range(0, len(members), _BLOCK):
        vectors = file.read_unit_vectors(members[start : start + _BLOCK])
        is_open = np.ones(len(vectors), bool)
        for earlier in kept:
            cosines = vectors[is_open] @ earlier.T
            is_open[is_open] = cosines.max(1, initial=-1) <= least
        remaining = np.flatnonzero(is_open)
        stays = _kept_in_block(vectors[remaining], least)
        near[start : start + len(vectors)] = True
        near[start + remaining[stays]] = False
        kept.append(vectors[remaining[stays]])
    return near


def _kept_in_block(vectors: Vectors, least: np.float32) -> NDArray[np.bool_]:
    """Return which vectors of a block stay, one after the other."""
    are_near = vectors @ vectors.T > least
    stays = np.zeros(len(vectors), bool)
    for number in range(len(vectors)):
        near_earlier = are_near[number, :number] & stays[:number]
        stays[number] = not near_earlier.any()
    return stays
