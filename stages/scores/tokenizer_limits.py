"""Limits by which long captions and many words cost a tokenizer neither time nor memory."""

from .base import ScoreError

# Characters; the time of merging grows with the square of a word's length.
_LONGEST_WORD = 500
_LONGEST_TEXT = 20_000
# Words.
_MOST_CACHED = 1 << 17


def tokenizable(text: str) -> str:
    """Return a caption. Raises ScoreError "too-long" beyond 20,000 characters, 500 in a word."""
    longest_word = max(map(len, text.split()), default=0)
    if len(text) > _LONGEST_TEXT or longest_word > _LONGEST_WORD:
        raise ScoreError(
            "too-long", f"a caption of {len(text):,} characters, or one of its words, is too long"
        )
    return text


def trim_cache(tokenizer: object) -> None:
    """Remove words from the cache of an OpenCLIP tokenizer, which grows with each new word."""
    cache = getattr(tokenizer, "cache", {})
    if len(cache) <= _MOST_CACHED:
        return
    # The first ones are the special tokens, which must stay.
    special = len(getattr(tokenizer, "all_special_ids", ()))
    for word in list(cache)[special:]:
        del cache[word]
