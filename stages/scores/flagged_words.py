"""How much of a caption is words of a list."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from .base import TextScore
from .characters import words

_LARGEST = 64 << 20  # bytes of a file


@dataclass(frozen=True, kw_only=True)
class FlaggedWords(TextScore):
    """Share of the caption's words that are in a list of yours: 0 where none is, 1 where all are.

    ``words`` is the list, or a text with commas or spaces between; ``file`` a text file in UTF-8 with a word a line
    ("#" begins a comment), read once when the score is made. Upper and lower case are the same; words are those of
    caption_words, so entries of several words are refused. 0 for a caption without words.
    Source: Data-Juicer's flagged_words_ratio; no list comes with this package.
    """

    name: ClassVar[str] = "flagged_words"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1

    words: str | tuple[str, ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = re.split(r"[,;\s]+", self.words) if isinstance(self.words, str) else list(self.words)
        given += list(_lines(self.file)) if self.file else []
        flagged = sorted({_plain(word) for word in given if word})
        if not flagged:
            raise ValueError("flagged_words needs a list: words='spam, ham' or file='words.txt'")
        object.__setattr__(self, "words", tuple(flagged))

    @cached_property
    def _flagged(self) -> frozenset[str]:
        return frozenset(self.words)

    def of(self, text: str) -> float:
        """Return the share."""
        found = words(text.lower())
        return sum(word in self._flagged for word in found) / len(found) if found else 0.0

    def settings(self) -> dict[str, Any]:
        """Return the list by its hash: not where it came from, and not at full length."""
        digest = blake2b("\n".join(self.words).encode(), digest_size=16).hexdigest()
        return {"caption": self.caption, "words": f"{len(self.words)} words, blake2b {digest}"}

    def versions(self) -> dict[str, Any]:
        """Return the version of Unicode, which knows what is a letter."""
        return {"unicode": unicodedata.unidata_version}


def _plain(word: str) -> str:
    found = words(word.lower())
    if len(found) != 1:
        raise ValueError(f"flagged_words: {word!r} is not one word, and captions are compared word by word")
    return found[0]


def _lines(path: str) -> Iterable[str]:
    file = Path(path).expanduser()
    size = file.stat().st_size
    if size > _LARGEST:
        raise ValueError(f"flagged_words: {path!r} has {size:,} bytes, at most {_LARGEST:,} are read")
    for line in file.read_text(encoding="utf-8-sig").splitlines():
        word = line.partition("#")[0].strip()
        if word:
            yield word
