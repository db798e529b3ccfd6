"""Histograms that a page draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BARS = 50
# Share of the values at each end that one bar at the end may hold.
_OUTSIDE = 0.005


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of equal ``width``: where each begins, and its number of values.

    Values beyond the ends are counted in the first and last bars.
    """

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
    numbers = np.asarray(values, np.float64)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    if not len(numbers):
        return None
    smallest, largest = float(numbers[0]), float(numbers[-1])
    low, high = _range(numbers, marks)
    width = _bar_width(numbers, low, high)
    first = math.floor(low / width)
    count = min(math.floor(high / width) - first + 1, 4 * BARS)
    index = np.floor(np.clip(numbers, low, high) / width) - first
    index = np.clip(index, 0, count - 1).astype(np.int64)
    counts = np.bincount(index, minlength=count).astype(np.float64)
    lefts = tuple(float(f"{(first + bar) * width:.10g}") for bar in range(count))
    median = number_label(_quantile(numbers, 0.5))
    summary = f"median {median}, {number_label(smallest)} to {number_label(largest)}"
    if marked:
        summary += f"; line: {marked}"
    if smallest < first * width or largest >= (first + count) * width:
        summary += "; the bars at the ends hold all beyond them"
    return Chart(name, title, summary, lefts, tuple(counts.tolist()), width, tuple(marks))


def round_step(least: float, *, whole: bool) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a number; of whole numbers at least 1.

    >>> round_step(0.03, whole=False), round_step(7, whole=True), round_step(0.0, whole=False)
    (0.05, 10.0, 1.0)
    """
    least = max(least, 1.0) if whole else least
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    # Rounding may have made it a little larger.
    steps = [power * factor for factor in (1, 2, 5, 10)]
    step = next(step for step in steps if step >= least * (1 - 1e-9))
    return float(f"{step:.6g}")


def number_label(value: float) -> str:
    """Return a number for people.

    >>> number_label(1234567.0), number_label(0.123456), number_label(12.0)
    ('1,234,567', '0.1235', '12')
    """
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def _range(numbers: "NDArray[np.float64]", marks: Sequence[float]) -> tuple[float, float]:
    """Return the range of the bars, which includes the lines; few values may be outside of it."""
    low = _quantile(numbers, _OUTSIDE)
    high = _quantile(numbers, 1 - _OUTSIDE)
    # Nearly all are the same: the others are what there is to see.
    if low == high:
        low, high = float(numbers[0]), float(numbers[-1])
    return min([low, *marks]), max([high, *marks])


def _bar_width(numbers: "NDArray[np.float64]", low: float, high: float) -> float:
    """Return a round width with which the bars cover a range."""
    # Not of the difference, which may be infinite.
    spread = high / BARS - low / BARS
    # Finer bars would begin at equal numbers.
    finest = 1e-9 * max(abs(low), abs(high))
    least = max(spread, finest) if spread or finest > 1 else 0.0
    are_whole = bool(np.all(numbers == np.floor(numbers)))
    return round_step(least, whole=are_whole)


def _quantile(numbers: "NDArray[np.float64]", share: float) -> float:
    """Return the value, of sorted ones, up to which there is a share of all."""
    return float(numbers[max(math.ceil(share * len(numbers)) - 1, 0)])
