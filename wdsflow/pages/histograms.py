"""Histograms that a page draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BARS = 50
# Share of the values at each end that one bar at the end may hold.
_OUTSIDE = 0.005


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of equal ``width``: where each begins, and its number of values; those beyond the ends are in the bars at the ends."""

    name: str
    title: str
    summary: str
    lefts: tuple[float, ...]
    counts: tuple[float, ...]
    width: float
    # Lines to draw.
    marks: tuple[float, ...] = ()

    def for_script(self) -> dict[str, object]:
        """Return the input of ``page.js``."""
        return {
            "lefts": self.lefts,
            "counts": self.counts,
            "width": self.width,
            "marks": self.marks,
        }


def chart(
    name: str, title: str, values: "ArrayLike", *, marks: Sequence[float] = (), marked: str = ""
) -> Chart | None:
    """Return the histogram of finite values; None if there are none.

    Bars are as wide as a round number of units; of integers none is narrower than 1. Lines are
    within it; ``marked`` says what they are.
    """
    found = np.asarray(values, np.float64)
    found = np.sort(found[np.isfinite(found)])
    if not len(found):
        return None
    places = (max(math.ceil(share * len(found)) - 1, 0) for share in (_OUTSIDE, 0.5, 1 - _OUTSIDE))
    low, middle, high = (float(found[place]) for place in places)
    # Nearly all are the same: the others are what there is to see.
    if low == high:
        low, high = float(found[0]), float(found[-1])
    low, high = min([low, *marks]), max([high, *marks])
    # Finer bars would begin at equal numbers.
    spread, finest = (
        high / BARS - low / BARS,
        1e-9 * max(abs(low), abs(high)),
    )
    least = max(spread, finest) if spread or finest > 1 else 0.0
    width = round_step(least, whole=bool(np.all(found == np.floor(found))))
    first = math.floor(low / width)
    count = min(math.floor(high / width) - first + 1, 4 * BARS)
    index = np.clip(np.floor(np.clip(found, low, high) / width) - first, 0, count - 1).astype(
        np.int64
    )
    bars = np.bincount(index, minlength=count).astype(np.float64)
    said = f"median {number(middle)}, {number(float(found[0]))} to {number(float(found[-1]))}{marked and '; line: ' + marked}"
    if found[0] < first * width or found[-1] >= (first + count) * width:
        said += "; the bars at the ends hold all beyond them"
    lefts = tuple(float(f"{(first + each) * width:.10g}") for each in range(count))
    return Chart(name, title, said, lefts, tuple(bars.tolist()), width, tuple(marks))


def round_step(least: float, *, whole: bool) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a number; of whole numbers at least 1.

    >>> round_step(0.03, whole=False), round_step(7, whole=True), round_step(0.0, whole=False)
    (0.05, 10.0, 1.0)
    """
    least = max(least, 1.0) if whole else least
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    return float(f"{step:.6g}")


def number(value: float) -> str:
    """Return a number for people.

    >>> number(1234567.0), number(0.123456), number(12.0)
    ('1,234,567', '0.1235', '12')
    """
    return (
        f"{value:,.0f}"
        if math.isfinite(value) and value == int(value) and abs(value) < 1e15
        else f"{value:,.4g}"
    )
