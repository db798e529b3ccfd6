"""Bounds on what a score of captions takes."""

from typing import Any

from ..score_errors import ScoreError

_LONGEST = 50
_LONGEST_WORD, _LONGEST_TEXT = 500, 20_000  # characters; the time of merging grows with the square of a word's length
_MOST_CACHED = 1 << 17  # words


def checked(name: str, n: int) -> None:
    """Raise ValueError if ``n`` is no length of an n-gram."""
    if not 1 <= n <= _LONGEST:
        raise ValueError(f"{name}: n={n!r} must be a length from 1 to {_LONGEST}")


def tokenizable(text: str) -> str:
    """Return a caption. Raises ScoreError "too-long" beyond 20,000 characters, 500 in a word."""
    if len(text) > _LONGEST_TEXT or max(map(len, text.split()), default=0) > _LONGEST_WORD:
        raise ScoreError("too-long", f"a caption of {len(text):,} characters, or one of its words, is too long")
    return text


def trim_cache(tokenizer: Any) -> None:
    """Let a tokenizer of OpenCLIP forget words: it remembers each word that it has seen."""
    cache = getattr(tokenizer, "cache", {})
    if len(cache) > _MOST_CACHED:
        for word in list(cache)[len(tokenizer.all_special_ids) :]:
            del cache[word]
