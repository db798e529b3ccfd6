"""Scores of text in pictures."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from ..base import Tolerance, Value, bare
from ..sample_view import View
from .model_score import Model, Output, Request
from .pictures import PictureScore, Reduce
from .text_boxes import Boxes, Canvas, Maps, OnCanvas, Point, TextBoxes, boxes_of
from .text_detector import TextDetector
from .text_lines import TextLine, UncutLines, lines_of
from .text_reader import TextReader


def summed(boxes: Boxes) -> float:
    """Return the sum of the boxes' areas over that of the picture; above 1 if they overlap or reach out of it.

    Source: Data-Juicer's video_ocr_area_ratio_filter, which takes a tilted box for two triangles.
    """
    area = sum(
        float((right - left) * (bottom - top))
        for left, right, top, bottom in boxes.upright
        if right >= left and bottom >= top
    )
    for first, second, third, fourth in boxes.tilted:
        area += _triangle(first, second, third) + _triangle(third, fourth, first)
    return area / (boxes.width * boxes.height)


def united(boxes: Boxes) -> float:
    """Return the share of the picture under boxes, from 0 to 1: the area of their union, cut at its edges.

    Exact except for rounding, by Shapely; nothing is drawn in pixels.
    """
    from shapely import MultiPoint, box, union_all

    shapes = [
        box(left, top, right, bottom)
        for left, right, top, bottom in boxes.upright
        if right > left and bottom > top
    ]
    # The corners of a tilted box may be in an order whose edges cross.
    shapes += [MultiPoint(quad).convex_hull for quad in boxes.tilted]
    union = union_all(shapes).intersection(box(0, 0, boxes.width, boxes.height))
    return min(1.0, float(union.area) / (boxes.width * boxes.height))


def _triangle(first: Point, second: Point, third: Point) -> float:
    (x1, y1), (x2, y2), (x3, y3) = first, second, third
    return 0.5 * abs(x1 * y2 + x2 * y3 + x3 * y1 - x2 * y1 - x3 * y2 - x1 * y3)


@dataclass(frozen=True, kw_only=True)
class OcrScore(
    PictureScore,
    needs=("ocr",),
    packages=("torch", "easyocr"),
    ranges={"canvas": (32, 1 << 14)},
    cpu_seconds=6,
):
    """A score of the text in a sample's images, or in frames of its videos if it has no image.

    Common settings: those of ``PictureScore``. ``canvas``: pixels of the longer side, at most;
    larger pictures are made smaller first. The time grows with the pixels: 10 seconds of a CPU core
    for a megapixel. ``weights``: the folder of EasyOCR's weights, "" for those of the extra
    ``ocr``.
    """

    canvas: int = 2560
    weights: str = ""

    def main_model(self) -> TextDetector:
        return TextDetector(weights=self.weights, canvas=self.canvas)

    def preparation(self) -> OnCanvas:
        return OnCanvas(self.canvas, self.decode)


@dataclass(frozen=True, kw_only=True)
class ReadScore(OcrScore):
    """A score of text read in pictures. ``language``, ``network``: see ``TextReader``.

    ``confidence``: lines with a lower confidence are left out.
    """

    language: str = "en"
    network: str = "english_g2"
    confidence: float = 0.0

    def _reader(self) -> TextReader:
        return TextReader(weights=self.weights, network=self.network, language=self.language)

    def models(self) -> tuple[Model, ...]:
        return self.main_model(), self._reader()

    def requests(self, view: View) -> list[Request]:
        """Return a request to read the lines that are detected in each picture."""
        requests, reader = [], self._reader()
        for found in super().requests(view):
            # Used again after detection, to crop lines.
            picture = cache(found.make)
            key = found.model, found.key
            requests.append(
                Request(reader, key, partial(_lines, picture), found._replace(make=picture))
            )
        return requests

    def texts(self, view: View, outputs: Sequence[Output]) -> list[str]:
        """Return the text of each image, or of each video."""
        found = []
        for pictures in self.grouped(view, outputs):
            texts = [
                " ".join(
                    text
                    for text, confidence in lines
                    if confidence >= self.confidence and text.strip()
                )
                for lines in pictures
            ]
            found.append("\n".join(text for text in dict.fromkeys(texts) if text))
        return found


def _lines(picture: Callable[[], Canvas], found: Maps | TextBoxes) -> list[TextLine] | UncutLines:
    return lines_of(picture().pixels, found)


@dataclass(frozen=True, kw_only=True)
class OcrArea(
    OcrScore,
    name="ocr_area",
    low=0,
    subject="image",
    scale_tolerance=Tolerance(0.04),
    small_is_good=True,
):
    """Share of the image that text covers, from 0 to 1; for a video, the mean of its first, middle and last frame.

    Boxes of EasyOCR's detector at its default thresholds, cut at the edges. ``area``: "union", the
    area under any box (by Shapely); "sum", Data-Juicer's video_ocr_area_ratio: overlapping boxes
    count twice, and parts outside of the image count, so the value may be above 1. ``reduce``:
    mean, max or min over a video's frames. ``decode`` "fast" decodes images of more than twice the
    canvas at a reduced scale, "exact" at their full size. Rounded to 6 places; other items of a
    batch change nothing on a CPU, and at most 0.002 on a GPU. Source: EasyOCR's CRAFT; Baek et al.,
    2019. See ``frames``, ``sampling``, ``canvas``, ``weights`` in ocr_text. A megapixel takes about
          10 seconds of a CPU
    core; a smaller ``canvas`` takes less, and misses small text.
    """

    area: Literal["union", "sum"] = "union"
    reduce: Reduce = "mean"

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        share = united if self.area == "union" else summed
        return self.over_frames(view, outputs, lambda found: share(boxes_of(found)), self.reduce)


_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class OcrCaptionOverlap(
    ReadScore,
    name="ocr_caption_overlap",
    low=0,
    high=1,
    subject="caption",
    optional=(*ReadScore.optional, "unicode"),
    small_is_good=True,
):
    """Share of the caption's words that are written in the image, from 0 to 1: 1 teaches a model to read, not to see.

    Words are runs of letters and digits, after Unicode's NFKC and without regard to case. Each word
    of the caption counts as often as it occurs; 0 if it has no word. The text is that of all
    images, or videos, of the sample: see ocr_text for ``confidence``, ``language``, ``frames`` and
    the others. ``caption``: the place of captions. Source: our own.
    """

    caption: str = ""

    def requests(self, view: View) -> list[Request]:
        # ScoreError if there is none.
        view.captions(self.caption)
        return super().requests(view)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        written = set(_words("\n".join(self.texts(view, outputs))))
        return bare([_share(_words(caption), written) for caption in view.captions(self.caption)])


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _share(words: list[str], written: set[str]) -> float:
    return round(sum(word in written for word in words) / len(words), 6) if words else 0.0


@dataclass(frozen=True, kw_only=True)
class OcrText(ReadScore, name="ocr_text", kind="text", subject="image"):
    """Text that is read in the image, "" if there is none; of a video, in its first, middle and last frame.

    Lines of EasyOCR in its order, joined by a space; frames of a video by a line break, frames with
    the same text once. ``confidence``: lines below it are left out. ``language`` is English ("en")
    by default; others need the weights of another ``network``. ``frames``: number of frames of a
    video; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all.
    ``canvas``: pixels of the longer side, at most. ``weights``: the folder of EasyOCR's weights, ""
    for those of the extra ``ocr``. ``decode``: see ocr_area. Source: EasyOCR's ``readtext``, not
    quantised.
    """

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        return bare([*self.texts(view, outputs)])
