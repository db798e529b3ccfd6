"""The share of a picture that text covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ..base import Subject, Tolerance, Value, bare
from .model_score import Output
from .ocr.detector import TextDetector
from .ocr.ocr_score import OcrScore

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class OcrArea(OcrScore):
    """Share of the image that text covers, from 0 to 1; for a video, the mean of its first, middle and last frame.

    Boxes of EasyOCR's detector at its default thresholds, cut at the edges. ``area``: "union", the area under any box
    (by Shapely); "sum", Data-Juicer's video_ocr_area_ratio: overlapping boxes count twice, and parts outside of the
    image count, so the value may be above 1. ``reduce``: mean, max or min over a video's frames. ``decode`` "fast"
    decodes images of more than twice the canvas at a reduced scale, "exact" at their full size. Rounded to 6 places;
    other items of a batch change nothing on a CPU, and at most 0.002 on a GPU. Source: EasyOCR's CRAFT; Baek et al.,
    2019. See ``frames``, ``sampling``, ``canvas``, ``weights`` in ocr_text.
    """

    name: ClassVar[str] = "ocr_area"
    low: ClassVar[float | None] = 0
    subject: ClassVar[Subject] = "image"
    scale_tolerance: ClassVar[Tolerance | None] = Tolerance(0.04)

    area: Literal["union", "sum"] = "union"
    reduce: Literal["mean", "max", "min"] = "mean"

    def models(self) -> tuple[TextDetector]:
        """Return the detector."""
        return (self.detector,)

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the share of each image, or of each video."""
        from .ocr.area import summed, united
        from .ocr.boxes import boxes_of

        share = united if self.area == "union" else summed
        return bare([self._reduced([share(boxes_of(maps)) for maps in each]) for each in self.grouped(view, outputs)])

    def _reduced(self, shares: list[float]) -> float:
        if self.reduce == "mean":
            return round(sum(shares) / len(shares), 6)
        return round(max(shares) if self.reduce == "max" else min(shares), 6)
