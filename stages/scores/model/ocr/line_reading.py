"""What scores of the text that is read share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from ..model_score import Model, Output, Request
from .boxes import Maps
from .ocr_score import OcrScore
from .text_reader import Line, TextReader

if TYPE_CHECKING:
    from ...sample_view import View
    from .canvas import Canvas


@dataclass(frozen=True, kw_only=True)
class ReadScore(OcrScore):
    """A score of what is written in pictures. ``language``, ``network``: see ``TextReader``.

    ``confidence``: lines that EasyOCR is less sure of are left out.
    """

    language: str = "en"
    network: str = "english_g2"
    confidence: float = 0.0

    def models(self) -> tuple[Model, ...]:
        """Return the detector, and the reader of what it finds."""
        return self.detector, self._reader

    def requests(self, view: "View") -> list[Request]:
        """Have the lines read that are found in each picture."""
        asked = []
        for found in super().requests(view):
            picture = cache(found.make)  # kept: lines are cut out of it once text is found
            key = found.model, found.key
            asked.append(Request(self._reader, key, partial(_lines, picture), found._replace(make=picture)))
        return asked

    @property
    def _reader(self) -> TextReader:
        return TextReader(weights=self.weights, network=self.network, language=self.language)

    def texts(self, view: "View", outputs: Sequence[Output]) -> list[str]:
        """Return the text of each image, or of each video."""
        found = []
        for pictures in self.grouped(view, outputs):
            texts = [
                " ".join(text for text, confidence in lines if confidence >= self.confidence and text.strip())
                for lines in pictures
            ]
            found.append("\n".join(text for text in dict.fromkeys(texts) if text))
        return found


def _lines(picture: "Callable[[], Canvas]", maps: Maps) -> list[Line]:
    """Return the lines of text in a picture."""
    from .lines import lines_of

    return lines_of(picture().pixels, maps)
