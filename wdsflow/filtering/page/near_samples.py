"""The samples whose pictures a page shows next to a slider.

They are at its ends, around its thresholds, and some in between.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .edges import Floats
from .predicate_parts import Limit, PredicateParts
from .sliders import Slider

# Samples at each end of a slider, and on each side of a threshold.
FEW = 6

RowNumbers = NDArray[np.int64]


def near_samples(slider: Slider, start: PredicateParts, most: int) -> list[int]:
    """Return the numbers of rows, in the order of the score.

    Args:
        slider: a score of all rows; rows without a value are left out.
        start: the thresholds of the predicate.
        most: rows to return; more only if the ends and the thresholds need more.
    """
    has_value = np.flatnonzero(slider.low >= 0)
    by_smallest = has_value[np.argsort(slider.lows[has_value], kind="stable")]
    by_largest = has_value[np.argsort(slider.highs[has_value], kind="stable")]

    chosen = set(by_smallest[:FEW].tolist())
    chosen.update(by_largest[-FEW:].tolist())
    # A sample with several values is kept if its smallest one is above the lower threshold, and
    # its largest one below the upper threshold.
    lower = start.low.get(slider.call)
    if lower is not None:
        values = slider.lows[by_smallest]
        chosen.update(_nearest_to_threshold(by_smallest, values, lower, keeps_above=True))
    upper = start.high.get(slider.call)
    if upper is not None:
        values = slider.highs[by_largest]
        chosen.update(_nearest_to_threshold(by_largest, values, upper, keeps_above=False))

    remaining = most - len(chosen)
    if remaining > 0:
        chosen.update(_evenly_spaced(by_smallest, remaining))
    return [row for row in by_smallest.tolist() if row in chosen]


def _nearest_to_threshold(
    rows: RowNumbers, values: Floats, limit: Limit, *, keeps_above: bool
) -> list[int]:
    """Return the rows on both sides of a threshold.

    ``rows`` are in the order of their ``values``. ``keeps_above``: the threshold keeps the values
    above it, otherwise those below it.
    """
    # Values equal to the threshold are kept unless it is strict.
    equal_is_below = limit.strict == keeps_above
    side: Literal["left", "right"] = "right" if equal_is_below else "left"
    border = int(np.searchsorted(values, limit.value, side))
    first = max(border - FEW, 0)
    neighbours: list[int] = rows[first : border + FEW].tolist()
    return neighbours


def _evenly_spaced(rows: RowNumbers, count: int) -> list[int]:
    """Return about ``count`` rows at equal distances, the first and the last among them."""
    last = len(rows) - 1
    positions = np.linspace(0, last, min(count, len(rows)))
    spaced: list[int] = rows[np.unique(positions.astype(np.int64))].tolist()
    return spaced
