"""Edges of the values of a score, the positions of a slider, and the codes of values between them.

The code of a value is 2 * n if n edges are below it, and one more if it is equal to the next.
"""

import base64
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wdsflow.text.words import number_text, roundest_after

# Characters of a number that needs no rounding.
_SHORT = 9

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.signedinteger]


def edges_of(values: Floats, most: int, required: Sequence[float] = ()) -> list[float]:
    """Return at most ``most`` edges, ascending, and the ``required`` ones.

    Each distinct value is one if there are few enough, and all have few digits. Otherwise edges are
    numbers of few digits before distinct values: before each of them, or at equal shares of the
    values.
    """
    ordered = np.sort(values[np.isfinite(values)])
    distinct = np.unique(ordered)
    if len(distinct) > most:
        edges = _edges_at_shares(ordered, distinct, most)
    elif all(_is_short(value) for value in distinct.tolist()):
        edges = set(distinct.tolist())
    else:
        edges = {_edge_before(distinct, index, strictly=True) for index in range(len(distinct))}
    for edge in required:
        if math.isfinite(edge):
            edges.add(float(edge))
    return sorted(edges)


def codes_of(values: Floats, edges: Sequence[float]) -> Codes:
    """Return the codes of finite values."""
    ends = np.asarray(edges, np.float64)
    if not len(ends):
        return np.zeros(len(values), np.int64)
    edges_below = np.searchsorted(ends, values, "left")
    # Of the largest values, the last edge.
    next_edges = ends[np.minimum(edges_below, len(ends) - 1)]
    is_edge = next_edges == values
    codes: Codes = 2 * edges_below + is_edge
    return codes


def packed(codes: Codes, kind: type[np.unsignedinteger]) -> str:
    """Return whole numbers as the bytes of a type of numpy's, in base64."""
    return base64.b64encode(codes.astype(kind).tobytes()).decode()


def _is_short(value: float) -> bool:
    """Return whether a number needs no rounding to be shown."""
    return len(number_text(value)) <= _SHORT


def _edges_at_shares(ordered: Floats, distinct: Floats, most: int) -> set[float]:
    """Return edges between which there are about equally many values."""
    shares = np.linspace(0, len(ordered) - 1, most).astype(np.int64)
    indexes = np.unique(np.searchsorted(distinct, ordered[shares]))
    return {_edge_before(distinct, index, strictly=False) for index in indexes.tolist()}


def _edge_before(distinct: Floats, index: int, *, strictly: bool) -> float:
    """Return the number of fewest digits that is greater than the value before an index.

    It is at most the value at the index.

    ``strictly``: less than the value, so that the edges of neighbours divide all values in both
    directions. The first value has as much room before it as after it.
    """
    value = float(distinct[index])
    if len(distinct) == 1:
        return value
    if index == 0:
        mirrored = 2 * value - float(distinct[1])
        return roundest_after(mirrored, value)
    most = value
    if strictly:
        most = float(np.nextafter(value, -math.inf))
    below = float(distinct[index - 1])
    if below >= most:
        # No number is between the two.
        return value
    return roundest_after(below, most)
