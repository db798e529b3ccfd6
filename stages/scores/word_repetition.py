"""How much a caption repeats itself, by its words."""

import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import TextScore
from .characters import words
from .lengths import checked


@dataclass(frozen=True, kw_only=True)
class WordRepetition(TextScore):
    """Share of the caption's runs of ``n`` words that occur more than once, upper and lower case being the same.

    Words are those of caption_words. 0 to 1; 0 where there are fewer than ``n`` words. ``n`` from 1 to 50.
    Source: Data-Juicer's word_rep_ratio.
    """

    name: ClassVar[str] = "word_repetition"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    n: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.name, self.n)

    def of(self, text: str) -> float:
        """Return the share."""
        found = words(text.lower())
        total = len(found) - self.n + 1
        if total < 1:
            return 0.0
        counts = Counter(tuple(found[start : start + self.n]) for start in range(total))
        return sum(count for count in counts.values() if count > 1) / total

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which knows what is a letter."""
        return {"unicode": unicodedata.unidata_version}
