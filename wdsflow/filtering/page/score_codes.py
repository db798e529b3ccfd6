"""Scores as small whole numbers, so that a page can hold 200,000 samples and count exactly.

A slider has a position for each *edge*, a number between the values. The code of a value v among edges e[0] < e[1] < ...
is 2k if e[k-1] < v < e[k], and 2k + 1 if v == e[k]. So v >= e[k] exactly if code >= 2k + 1, v > e[k] if code >= 2k + 2,
v <= e[k] if code <= 2k + 1, and v < e[k] if code <= 2k.
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wdsflow.text.words import roundest_after

UNKNOWN, PENDING = -1, -2  # could not be computed; was not needed


def edges_of(values: Any, most: int, also: Sequence[float] = ()) -> list[float]:
    """Return at most ``most`` edges, ascending, and those of ``also``.

    Each distinct value is one if there are few enough. Otherwise they are at equal shares of the values, each the number
    of fewest digits that divides the values at the same place.
    """
    ordered = np.sort(values[np.isfinite(values)])
    distinct = np.unique(ordered)
    if len(distinct) <= most:
        found = set(distinct.tolist())
    else:
        places = np.unique(np.searchsorted(distinct, ordered[np.linspace(0, len(ordered) - 1, most).astype(np.int64)]))
        found = {
            roundest_after(float(distinct[place - 1]) if place else -math.inf, float(distinct[place]))
            for place in places.tolist()
        }
    return sorted(found | {float(each) for each in also if math.isfinite(each)})


def codes_of(values: Any, edges: Sequence[float]) -> Any:
    """Return the codes of finite values."""
    ends = np.asarray(edges, np.float64)
    left = np.searchsorted(ends, values, "left")
    equal = ends[np.minimum(left, len(ends) - 1)] == values if len(ends) else np.zeros(len(values), bool)
    return 2 * left + equal


def packed(codes: Any, kind: Any) -> str:
    """Return whole numbers as the bytes of a type of numpy's, in base64."""
    return base64.b64encode(np.asarray(codes).astype(kind).tobytes()).decode()
