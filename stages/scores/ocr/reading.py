"""What scores of the text that is read share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import Output
from .reader import TextReader
from .score import OcrScore

if TYPE_CHECKING:
    from ..view import View


@dataclass(frozen=True, kw_only=True)
class ReadScore(OcrScore):
    """A score of what is written in pictures. ``language``, ``network``: see ``TextReader``.

    ``confidence``: lines that EasyOCR is less sure of are left out.
    """

    language: str = "en"
    network: str = "english_g2"
    confidence: float = 0.0

    def models(self) -> tuple[TextReader]:
        """Return the reader."""
        settings = {"network": self.network, "language": self.language}
        return (TextReader(weights=self.weights, canvas=self.canvas, **settings),)

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
