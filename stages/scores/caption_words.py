"""How many words a caption has."""

import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import TextScore
from .characters import words


@dataclass(frozen=True, kw_only=True)
class CaptionWords(TextScore):
    """Number of words in the caption. Numbers and lone punctuation are none; unspaced scripts are one word.

    Split at spaces, tabs and line ends; special characters (see special_char_ratio) are stripped from each word's
    ends, and what is empty then does not count. From 0 on. Source: Data-Juicer's num_words.
    """

    name: ClassVar[str] = "caption_words"
    unit: ClassVar[str] = "words"
    low: ClassVar[float | None] = 0

    def of(self, text: str) -> int:
        """Return the number of words."""
        return len(words(text))

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which knows what is a letter."""
        return {"unicode": unicodedata.unidata_version}
