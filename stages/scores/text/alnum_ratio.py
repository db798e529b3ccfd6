"""The share of letters and digits in a caption."""

import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import TextScore


@dataclass(frozen=True, kw_only=True)
class AlnumRatio(TextScore):
    """Share of the caption's characters that are letters or digits of any script (``str.isalnum``); 0 if it is empty.

    All characters count, including white space and punctuation: "a cat" has 0.8. 0 to 1. Source: Data-Juicer's
    alnum_ratio, the same number.
    """

    name: ClassVar[str] = "alnum_ratio"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    def of(self, text: str) -> float:
        """Return the share."""
        return sum(map(str.isalnum, text)) / len(text) if text else 0.0

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which defines letters."""
        return {"unicode": unicodedata.unidata_version}
