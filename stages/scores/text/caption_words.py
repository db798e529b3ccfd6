"""How many words a caption has."""

from dataclasses import dataclass
from typing import ClassVar

from .characters import juicer_words
from .counted import CountedScore


@dataclass(frozen=True, kw_only=True)
class CaptionWords(CountedScore):
    """Number of words in the caption: what white space separates. "500 Japanese yen." has 3; unspaced scripts are one word.

    From 0 on. Source: our own; the same as ``len(caption.split())`` in Python, which DataComp's basic filter counts.
    With count="data-juicer" it is Data-Juicer's num_words, "500 Japanese yen." has 2: special characters, digits among
    them, are stripped from each word's ends, and what is empty then does not count. By default ("auto") that is the count
    for Data-Juicer's JSON lines; "plain" is the count above for these, too.
    """

    name: ClassVar[str] = "caption_words"
    unit: ClassVar[str] = "words"
    low: ClassVar[float | None] = 0

    def plain(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def data_juicer(self, text: str) -> int:
        """Return the number of words that are not digits or punctuation alone."""
        return len(juicer_words(text))
