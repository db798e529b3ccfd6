"""How many words a caption has."""

from dataclasses import dataclass
from typing import ClassVar

from .characters import juicer_words
from .counted import CountedScore


@dataclass(frozen=True, kw_only=True)
class CaptionWords(CountedScore):
    """Number of words in the caption, separated by white space. "500 Japanese yen." has 3; unspaced scripts are one word.

    From 0 on. Source: our own; the same as ``len(caption.split())`` in Python, which DataComp's basic filter counts.
    With count="data-juicer" it is Data-Juicer's num_words; "500 Japanese yen." has 2: special characters, including
    digits, are stripped from each word's ends, and empty words do not count. By default ("auto") this count is used for
    Data-Juicer's JSON lines; "plain" uses the count above for these too.
    """

    name: ClassVar[str] = "caption_words"
    unit: ClassVar[str] = "words"
    low: ClassVar[float | None] = 0

    def plain(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def data_juicer(self, text: str) -> int:
        """Return the number of words that are not only digits or punctuation."""
        return len(juicer_words(text))
