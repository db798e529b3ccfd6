"""The share of a caption that is written in its picture."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..base import Subject, Value, bare
from .model_score import Output, Request
from .ocr.line_reading import ReadScore

if TYPE_CHECKING:
    from ..sample_view import View

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class OcrCaptionOverlap(ReadScore):
    """Share of the caption's words that are written in the image, from 0 to 1: 1 teaches a model to read, not to see.

    Words are runs of letters and digits, after Unicode's NFKC and without regard to case. Each word of the caption
    counts as often as it occurs; 0 if it has no word. The text is that of all images, or videos, of the sample: see
    ocr_text for ``confidence``, ``language``, ``frames`` and the others. ``caption``: the place of captions. Source:
    our own.
    """

    name: ClassVar[str] = "ocr_caption_overlap"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"

    caption: str = ""

    def requests(self, view: "View") -> list[Request]:
        """Ask for all pictures, unless there is no caption."""
        view.captions(self.caption)
        return super().requests(view)

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the share of each caption."""
        written = set(_words("\n".join(self.texts(view, outputs))))
        return bare([_share(_words(caption), written) for caption in view.captions(self.caption)])

    def versions(self) -> dict[str, Any]:
        """Return the versions of what affects a value, including that of Unicode."""
        return {**super().versions(), "unicode": unicodedata.unidata_version}


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _share(words: list[str], written: set[str]) -> float:
    return round(sum(word in written for word in words) / len(words), 6) if words else 0.0
