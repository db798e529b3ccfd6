"""How much of a caption is neither letters nor words."""

import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import TextScore
from .characters import is_special


@dataclass(frozen=True, kw_only=True)
class SpecialCharRatio(TextScore):
    """Share of the caption's characters that are special: digits, white space, punctuation, symbols, emoji.

    Special is what Unicode calls neither a letter nor a mark (categories other than L and M), except for the five
    that Data-Juicer does not count either: ratio sign, heavy line, angle brackets and full-width per cent. 0 to 1, and
    0 for an empty caption. Source: Data-Juicer's special_char_ratio; its table also has a few letters, which are not
    special here.
    """

    name: ClassVar[str] = "special_char_ratio"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    def of(self, text: str) -> float:
        """Return the share."""
        return sum(map(is_special, text)) / len(text) if text else 0.0

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which knows what is a letter."""
        return {"unicode": unicodedata.unidata_version}
