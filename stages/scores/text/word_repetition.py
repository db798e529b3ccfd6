"""How much a caption repeats itself, by its words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .characters import juicer_words, words
from .counted import CountedScore
from .lengths import checked


@dataclass(frozen=True, kw_only=True)
class WordRepetition(CountedScore):
    """Share of the caption's runs of ``n`` words that occur more than once; case does not matter.

    Words are what white space separates, numbers among them; punctuation at their ends makes no difference. 0 to 1; 0
    if there are fewer than ``n`` words. ``n`` from 1 to 50. Source: Data-Juicer's word_rep_ratio, with other words.
    With count="data-juicer" it is that number: Data-Juicer's words (see caption_words) exclude numbers. By default
    ("auto") this count is used for its JSON lines; "plain" uses the count above for these too.
    """

    name: ClassVar[str] = "word_repetition"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    n: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.name, self.n)

    def plain(self, text: str) -> float:
        """Return the share; numbers are words."""
        return self._share(words(text.lower()))

    def data_juicer(self, text: str) -> float:
        """Return the share of Data-Juicer's words."""
        return self._share(juicer_words(text.lower()))

    def _share(self, found: Sequence[str]) -> float:
        total = len(found) - self.n + 1
        if total < 1:
            return 0.0
        counts = Counter(tuple(found[start : start + self.n]) for start in range(total))
        return sum(count for count in counts.values() if count > 1) / total
