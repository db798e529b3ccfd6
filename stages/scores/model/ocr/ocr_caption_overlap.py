"""The share of a caption that is written in the image."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ...base import Value, single_or_list
from ...sample_view import View
from ..model import Output
from ..model_score import Request
from .ocr_score import ReadScore

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
    """Share of the caption's words that are written in the image, from 0 to 1.

    A value of 1 teaches a model to read, not to see.

    Words are runs of letters and digits, after Unicode's NFKC and without regard to case. Each word
    of the caption counts as often as it occurs; 0 if it has no word. The text is that of all
    images, or videos, of the sample: see ocr_text for ``confidence``, ``language``, ``frames`` and
    the others. ``caption``: the place of captions. Source: our own.
    """

    caption: str = ""

    def requests(self, view: View) -> list[Request]:
        # Raises ScoreError if there is none.
        view.captions(self.caption)
        return super().requests(view)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        written = set(_words("\n".join(self.texts(view, outputs))))
        return single_or_list(
            [_share(_words(caption), written) for caption in view.captions(self.caption)]
        )


def _words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, without regard to case."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _share(words: list[str], written: set[str]) -> float:
    """Return the share of the words that are written, rounded; 0 if there are no words."""
    if not words:
        return 0.0
    count = sum(word in written for word in words)
    return round(count / len(words), 6)
