"""The share of an image that text covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...base import Tolerance, Value
from ...sample_view import View
from ..model import Output
from ..pictures.reduced import Reduce
from .ocr_score import OcrScore
from .text_areas import covered_area_share, summed_area_share
from .text_boxes import boxes_of


@dataclass(frozen=True, kw_only=True)
class OcrArea(
    OcrScore,
    name="ocr_area",
    low=0,
    subject="image",
    scale_tolerance=Tolerance(0.04),
    small_is_good=True,
):
    """Share of the image that text covers, from 0 to 1.

    For a video, it is the mean of its first, middle and last frame.

    Boxes of EasyOCR's detector at its default thresholds, cut at the edges. ``area``: "union", the
    area under any box (by Shapely); "sum", Data-Juicer's video_ocr_area_ratio: overlapping boxes
    count twice, and parts outside of the image count, so the value may be above 1. ``reduce``:
    mean, max or min over a video's frames. ``decode`` "fast" decodes images of more than twice the
    canvas at a reduced scale, "exact" at their full size. Rounded to 6 places; other items of a
    batch change nothing on a CPU, and at most 0.002 on a GPU. Source: EasyOCR's CRAFT; Baek et al.,
    2019. See ``frames``, ``sampling``, ``canvas``, ``weights`` in ocr_text. A megapixel takes about
    10 seconds of a CPU core; a smaller ``canvas`` takes less, and misses small text.
    """

    area: Literal["union", "sum"] = "union"
    reduce: Reduce = "mean"

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        area = covered_area_share if self.area == "union" else summed_area_share
        return self.values_over_frames(
            view, outputs, lambda output: area(boxes_of(output)), self.reduce
        )
