"""One number from the outputs of a model for several pictures."""

import math
from collections.abc import Sequence
from typing import Literal

from ...base import ScoreError

Reduce = Literal["mean", "max", "min"]


def reduced(values: Sequence[float], reduce: Reduce) -> float:
    """Return the mean, the largest or the smallest. Raises ScoreError for NaN: see ``finite``.

    >>> reduced([1.0, 2.0, 6.0], "mean")
    3.0
    """
    checked = [finite(value) for value in values]
    if reduce == "mean":
        return math.fsum(checked) / len(checked)
    if reduce == "max":
        return max(checked)
    return min(checked)


def finite(value: float) -> float:
    """Return the number. Raises ScoreError "not-finite" for NaN and infinities."""
    if not math.isfinite(value):
        raise ScoreError(
            "not-finite", f"the model's answer is {value}; half precision may be too small for it"
        )
    return float(value)
