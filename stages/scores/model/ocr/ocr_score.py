"""Base classes of scores of text in pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from ...sample_view import View
from ..model import Model, Output
from ..model_score import Request
from ..pictures.picture_score import PictureScore
from .text_boxes import Canvas, Maps, OnCanvas, TextBoxes
from .text_detector import TextDetector
from .text_lines import TextLine, UncutLines, lines_of
from .text_reader import Lines, TextReader


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
        requests: list[Request] = []
        reader = self._reader()
        for request in super().requests(view):
            # Used again after detection, to crop lines.
            canvas = cache(request.make)
            detection = request._replace(make=canvas)
            key = detection.model, detection.key
            requests.append(Request(reader, key, partial(_lines, canvas), after=detection))
        return requests

    def texts(self, view: View, outputs: Sequence[Output]) -> list[str]:
        """Return the text of each image, or of each video."""
        texts: list[str] = []
        for pictures in self.outputs_by_image(view, outputs):
            picture_texts = [self._joined(lines) for lines in pictures]
            # Frames of a video often have the same text.
            different = [text for text in dict.fromkeys(picture_texts) if text]
            texts.append("\n".join(different))
        return texts

    def _joined(self, lines: Lines) -> str:
        """Return the lines of a picture that are confident enough, joined by a space."""
        texts: list[str] = []
        for text, confidence in lines:
            if confidence >= self.confidence and text.strip():
                texts.append(text)
        return " ".join(texts)


def _lines(canvas: Callable[[], Canvas], detected: Maps | TextBoxes) -> list[TextLine] | UncutLines:
    return lines_of(canvas().pixels, detected)
