"""How much a caption repeats itself, by its characters."""

from collections import Counter
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from ..base import TextScore
from .lengths import checked


@dataclass(frozen=True, kw_only=True)
class CharRepetition(TextScore):
    """Share of the caption's pieces of ``n`` characters that are among its most repeated ones.

    Of the distinct pieces (n-grams) the min(floor(sqrt(distinct)), repeated) most frequent ones are added up and
    divided by all pieces. White space is part of them, and upper and lower case differ. 0 to 1; 0 if there is no piece
    of that length. ``n`` from 1 to 50. Source: Data-Juicer's char_rep_ratio, the same number.
    """

    name: ClassVar[str] = "char_repetition"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    n: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.name, self.n)

    def of(self, text: str) -> float:
        """Return the share."""
        total = len(text) - self.n + 1
        if total < 1:
            return 0.0
        counts = Counter(text[start : start + self.n] for start in range(total))
        repeated = sum(1 for count in counts.values() if count > 1)
        most = min(isqrt(len(counts)), repeated)
        return sum(sorted(counts.values(), reverse=True)[:most]) / total
