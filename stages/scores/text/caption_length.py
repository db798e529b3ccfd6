"""The length of a caption."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import TextScore


@dataclass(frozen=True, kw_only=True)
class CaptionLength(TextScore):
    """Length of the caption in characters (Unicode code points); white space at its ends counts.

    An emoji or a letter with its accents may take several. From 0 on. Source: Data-Juicer's text_len, the same number.
    """

    name: ClassVar[str] = "caption_length"
    unit: ClassVar[str] = "characters"
    low: ClassVar[float | None] = 0

    def of(self, text: str) -> int:
        """Return the length."""
        return len(text)
