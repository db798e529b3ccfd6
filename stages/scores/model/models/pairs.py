"""Which images of a sample go with which captions, and one value of several."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ...score_errors import ScoreError

if TYPE_CHECKING:
    from ...sample_view import View
    from ..picture_score import PictureScore

Reduce = Literal["mean", "max", "min"]
Pair = tuple[str, tuple[str, ...]]  # a caption, and the fields that are its images


def pairs(view: "View", score: "PictureScore", caption: str) -> list[Pair]:
    """Return each caption with its images, or its videos. Raises ScoreError if there are none of either."""
    if score.image_fields(view):
        return view.pairs(caption, score.image)
    return view.video_pairs(caption, score.video)


def names_of(found: Sequence[Pair]) -> list[str]:
    """Return the fields in pairs, each once."""
    return list(dict.fromkeys(name for _text, names in found for name in names))


def reduced(values: Sequence[float], reduce: Reduce) -> float:
    """Return the mean, the largest or the smallest. NaN among them is an error: see ``finite``.

    >>> reduced([1.0, 2.0, 6.0], "mean")
    3.0
    """
    checked = [finite(value) for value in values]
    if reduce == "mean":
        return math.fsum(checked) / len(checked)
    return max(checked) if reduce == "max" else min(checked)


def finite(value: float) -> float:
    """Return the number. Raises ScoreError "not-finite" for NaN and infinities: no model says that on purpose."""
    if not math.isfinite(value):
        raise ScoreError("not-finite", f"the model's answer is {value}; half precision may be too small for it")
    return float(value)
