"""The share of special characters in a caption."""

from dataclasses import dataclass
from typing import ClassVar

from .characters import is_juicer_special, is_special
from .counted import CountedScore


@dataclass(frozen=True, kw_only=True)
class SpecialCharRatio(CountedScore):
    """Share of the caption's characters that are special: punctuation, symbols, emoji, control characters.

    Special characters are neither letters, marks nor numbers in Unicode (categories other than L, M and N), nor white
    space. 0 to 1, and 0 for an empty caption; white space counts among all characters. Source: our own. With
    count="data-juicer" it is Data-Juicer's special_char_ratio: digits and white space are special too; five marks
    (ratio sign, heavy line, angle brackets, full-width per cent) and the letters in its table are not. By default
    ("auto") this count is used for its JSON lines; "plain" uses the count above for these too.
    """

    name: ClassVar[str] = "special_char_ratio"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    def plain(self, text: str) -> float:
        """Return the share."""
        return sum(map(is_special, text)) / len(text) if text else 0.0

    def data_juicer(self, text: str) -> float:
        """Return the share, digits and white space being special."""
        return sum(map(is_juicer_special, text)) / len(text) if text else 0.0
