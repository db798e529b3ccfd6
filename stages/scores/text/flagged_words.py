"""The share of a caption's words that are in a list."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from .characters import juicer_words, words
from .counted import CountedScore

_LARGEST = 64 << 20  # bytes of a file


@dataclass(frozen=True, kw_only=True)
class FlaggedWords(CountedScore):
    """Share of the caption's words that are in your list: 0 if none is, 1 if all are.

    ``words`` is the list, or a text with commas or spaces between; ``file`` a text file in UTF-8 with one word per line
    ("#" begins a comment), read once when the score is created. Case does not matter. The caption's words are separated
    by white space; each is compared as it is written, and without punctuation at its ends. Entries of several words are
    refused. 0 for a caption without words. wdsflow contains no list. Source: Data-Juicer's flagged_words_ratio, with
    other words. With count="data-juicer" it is that number: Data-Juicer's words (see caption_words) exclude numbers. By
    default ("auto") this count is used for its JSON lines; "plain" uses the count above for these too.
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
        flagged = sorted({_plain(word) for word in given if word.strip()})
        if not flagged:
            raise ValueError("flagged_words needs a list: words='spam, ham' or file='words.txt'")
        object.__setattr__(self, "words", tuple(flagged))

    @cached_property
    def _flagged(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def _juicer_flagged(self) -> frozenset[str]:
        return frozenset(juicer for word in self.words for juicer in juicer_words(word))

    def plain(self, text: str) -> float:
        """Return the share of words between white space."""
        lower = text.lower()
        pairs = list(zip(lower.split(), words(lower), strict=True))
        return sum(not self._flagged.isdisjoint(pair) for pair in pairs) / len(pairs) if pairs else 0.0

    def data_juicer(self, text: str) -> float:
        """Return the share of Data-Juicer's words."""
        found = juicer_words(text.lower())
        return sum(word in self._juicer_flagged for word in found) / len(found) if found else 0.0

    def settings(self) -> dict[str, Any]:
        """Return the list by its hash, without its origin and its full text."""
        digest = blake2b("\n".join(self.words).encode(), digest_size=16).hexdigest()
        return {"caption": self.caption, "count": self.count, "words": f"{len(self.words)} words, blake2b {digest}"}


def _plain(word: str) -> str:
    found = word.lower().split()
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
