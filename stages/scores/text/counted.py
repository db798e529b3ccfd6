"""Scores of captions with two counts: the plain one and Data-Juicer's."""

import unicodedata
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..base import Scalar, TextScore

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class CountedScore(TextScore):
    """``count``: "plain", "data-juicer", or "auto": Data-Juicer's way for its JSON lines, otherwise the plain one."""

    count: Literal["auto", "plain", "data-juicer"] = "auto"

    @abstractmethod
    def plain(self, text: str) -> Scalar:
        """Return the value of a caption by the plain count."""

    @abstractmethod
    def data_juicer(self, text: str) -> Scalar:
        """Return the value of a caption as Data-Juicer counts."""

    def of(self, text: str) -> Scalar:
        """Return the value of a caption in a tar."""
        return self.data_juicer(text) if self.count == "data-juicer" else self.plain(text)

    def way(self, view: "View") -> Callable[[str], Scalar]:
        """Return the function that scores the captions of a sample."""
        return self.data_juicer if view.of_data_juicer and self.count == "auto" else self.of

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which defines letters and white space."""
        return {"unicode": unicodedata.unidata_version}
