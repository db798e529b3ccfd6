"""Which samples a page shows of a score: those next to the run's own cuts, the lowest and highest, and some between."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .studio import Limit, PredicateParts, Slider

FEW = 6  # samples on each side of a cut


def near_samples(slider: Slider, start: PredicateParts, lows: Any, highs: Any, most: int) -> list[int]:
    """Return rows in the order of the score, at most ``most`` or those at its ends and cuts.

    ``lows`` and ``highs`` are the smallest and the largest value of each row; rows without a value do not count.
    """
    known = np.flatnonzero(slider.low >= 0)
    by_low, by_high = (known[np.argsort(values[known], kind="stable")] for values in (lows, highs))
    chosen = {*by_low[:FEW].tolist(), *by_high[-FEW:].tolist()}
    for limits, order, values in ((start.low, by_low, lows), (start.high, by_high, highs)):
        if (limit := limits.get(slider.call)) is not None:
            chosen |= _around(order, values[order], limit, above=limits is start.low)
    room = most - len(chosen)
    if room > 0:
        at = np.unique(np.linspace(0, len(by_low) - 1, min(room, len(by_low))).astype(np.int64))
        chosen.update(by_low[at].tolist())
    return [row for row in by_low.tolist() if row in chosen]


def _around(order: Any, values: Sequence[float], limit: Limit, *, above: bool) -> set[int]:
    """Return the rows on both sides of a cut. ``above``: values above it are kept, so that a strict cut is dropped."""
    at = int(np.searchsorted(values, limit.value, "right" if limit.strict == above else "left"))
    return set(order[max(at - FEW, 0) : at + FEW].tolist())
