"""Scores as small whole numbers, so that a page can hold 200,000 samples and count exactly.

A slider has a position for each *edge*, a number between the values. The code of a value v among edges e[0] < e[1] < ...
is 2k if e[k-1] < v < e[k], and 2k + 1 if v == e[k]. So v >= e[k] exactly if code >= 2k + 1, v > e[k] if code >= 2k + 2,
v <= e[k] if code <= 2k + 1, and v < e[k] if code <= 2k.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np

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
            shortest(float(distinct[place - 1]) if place else -math.inf, float(distinct[place]))
            for place in places.tolist()
        }
    return sorted(found | {float(each) for each in also if math.isfinite(each)})


def shortest(below: float, value: float) -> float:
    """Return a number of few digits that is greater than ``below`` and not greater than ``value``.

    >>> shortest(0.281234, 0.283456), shortest(-1.55, -1.5499), shortest(9.7, 10.2)
    (0.282, -1.5499, 10.0)
    """
    if not math.isfinite(below):
        return value
    low, high = Decimal(below), Decimal(value)
    for digits in range(-int(high.adjusted()) if high else 0, 20):
        step = Decimal(1).scaleb(-digits)
        tried = (low / step).to_integral_value(ROUND_CEILING) * step
        tried = tried + step if tried == low else tried
        if tried <= high and below < float(tried) <= value:
            return min(value, float(tried), key=lambda each: len(spelled_number(each)))
    return value


def codes_of(values: Any, edges: Sequence[float]) -> Any:
    """Return the codes of finite values."""
    ends = np.asarray(edges, np.float64)
    left = np.searchsorted(ends, values, "left")
    equal = ends[np.minimum(left, len(ends) - 1)] == values if len(ends) else np.zeros(len(values), bool)
    return 2 * left + equal


def spelled_number(value: float) -> str:
    """Return a number as a predicate has it.

    >>> spelled_number(512.0), spelled_number(0.28), spelled_number(-1e-07)
    ('512', '0.28', '-1e-07')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
