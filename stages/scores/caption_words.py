"""Scores that count in captions: characters, words, tokens, repetitions."""

import unicodedata
from collections import Counter
from itertools import filterfalse
from math import isqrt
from typing import Any

from .base import Count, ScoreError, simple_score
from .juicer_characters import JUICER_SPECIAL

# Of an n-gram, in characters or words.
_LENGTHS = (1, 50)
# Characters; the time of merging grows with the square of a word's length.
_LONGEST_WORD, _LONGEST_TEXT = 500, 20_000
# Words.
_MOST_CACHED = 1 << 17

_JUICER_SPECIAL_SET = frozenset(JUICER_SPECIAL)


def tokenizable(text: str) -> str:
    """Return a caption. Raises ScoreError "too-long" beyond 20,000 characters, 500 in a word."""
    if len(text) > _LONGEST_TEXT or max(map(len, text.split()), default=0) > _LONGEST_WORD:
        raise ScoreError(
            "too-long", f"a caption of {len(text):,} characters, or one of its words, is too long"
        )
    return text


def trim_cache(tokenizer: object) -> None:
    """Remove words from the cache of an OpenCLIP tokenizer, which grows with each new word."""
    cache = getattr(tokenizer, "cache", {})
    if len(cache) > _MOST_CACHED:
        for word in list(cache)[len(getattr(tokenizer, "all_special_ids", ())) :]:
            del cache[word]


class _Special(dict[str, bool]):
    """Punctuation, symbols, emoji, control characters."""

    def __missing__(self, char: str) -> bool:
        self[char] = special = unicodedata.category(char)[0] not in "LMN" and not char.isspace()
        return special


is_special = _Special().__getitem__


def words(text: str) -> list[str]:
    """Return the words between white space, without special characters at both ends unless a word has no others.

    >>> words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', '3', 'three', 'dogs', '--', 'and', "it's", '10']
    """
    return [word if word.isalnum() else _stripped(word) or word for word in text.split()]


def juicer_words(text: str) -> list[str]:
    """Return Data-Juicer's words: split at spaces, tabs and line ends, its special characters stripped, none empty.

    Numbers and lone punctuation are not words. Some letters, such as "ø" and "一", are special
    characters, too.

    >>> juicer_words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', 'three', 'dogs', 'and', "it's"]
    """
    parts = text.replace("\n", " ").replace("\t", " ").split(" ")
    stripped = [_juicer_stripped(part) for part in parts]
    return [word for word in stripped if word]


def _juicer_stripped(word: str) -> str:
    # No ASCII letter is special, and most words have no other characters.
    return word if word.isascii() and word.isalpha() else word.strip(JUICER_SPECIAL)


def _stripped(word: str) -> str:
    first = next(filterfalse(is_special, word), None)
    if first is None:
        return ""
    last = next(filterfalse(is_special, reversed(word)))
    return word[word.index(first) : word.rindex(last) + 1]


@simple_score(low=0, high=1, optional=("unicode",))
def alnum_ratio(text: str) -> float:
    """Share of the caption's characters that are letters or digits of any script (``str.isalnum``); 0 if it is empty.

    All characters count, including white space and punctuation: "a cat" has 0.8. 0 to 1. Source:
    Data-Juicer's alnum_ratio, the same number.
    """
    return sum(map(str.isalnum, text)) / len(text) if text else 0.0


@simple_score(unit="characters", low=0)
def caption_length(text: str) -> int:
    """Length of the caption in characters (Unicode code points); white space at its ends counts.

    An emoji or a letter with its accents may take several. From 0 on. Source: Data-Juicer's
    text_len, the same number.
    """
    return len(text)


@simple_score(
    unit="tokens",
    low=0,
    needs=("openclip",),
    packages=("open_clip_torch",),
    optional=("transformers", "tokenizers"),
)
def caption_tokens(text: str, *, model: str = "ViT-B-32") -> int:
    """Number of tokens of the caption in OpenCLIP's tokenizer of ``model``, start and end marks not counted.

    Captions of more than 75 tokens are cut in training if the context has 77, as for ViT-B-32. From
    0 on. Captions of more than 20,000 characters, or with a word of more than 500, are an error
    ("too-long"). Source: ``open_clip.get_tokenizer``. Imports torch.
    """
    from ..tokenize import named_tokenizer

    tokenizable(text)
    tokenizer: Any = named_tokenizer(model)
    encode = getattr(tokenizer, "encode", None)
    if encode is None:
        return len(
            tokenizer.tokenizer(tokenizer.clean_fn(text), add_special_tokens=False).input_ids
        )
    tokens = len(encode(text))
    trim_cache(tokenizer)
    return tokens


@simple_score(unit="words", low=0, optional=("unicode",), revision=2)
def caption_words(text: str, *, count: Count = "plain") -> int:
    """Number of words in the caption, separated by white space. "500 Japanese yen." has 3; unspaced scripts are one word.

    From 0 on. Source: our own; the same as ``len(caption.split())`` in Python, which DataComp's
    basic filter counts. With count="data-juicer" it is Data-Juicer's num_words, the same number;
    "500 Japanese yen." has 2: its special characters (see special_char_ratio), digits among them,
    are stripped from each word's ends, and empty words do not count.
    """
    return len(juicer_words(text) if count == "data-juicer" else text.split())


@simple_score(low=0, high=1, ranges={"n": _LENGTHS}, small_is_good=True)
def char_repetition(text: str, *, n: int = 10) -> float:
    """Share of the caption's pieces of ``n`` characters that are among its most repeated ones.

    Of the distinct pieces (n-grams) the min(floor(sqrt(distinct)), repeated) most frequent ones are
    added up and divided by all pieces. White space is part of them, and upper and lower case
    differ. 0 to 1; 0 if there is no piece of that length. ``n`` from 1 to 50. Source: Data-Juicer's
    char_rep_ratio, the same number.
    """
    total = len(text) - n + 1
    if total < 1:
        return 0.0
    counts = Counter(text[start : start + n] for start in range(total))
    repeated = sum(1 for count in counts.values() if count > 1)
    most = min(isqrt(len(counts)), repeated)
    return sum(sorted(counts.values(), reverse=True)[:most]) / total


@simple_score(low=0, high=1, optional=("unicode",), revision=2, small_is_good=True)
def special_char_ratio(text: str, *, count: Count = "plain") -> float:
    """Share of the caption's characters that are special: punctuation, symbols, emoji, control characters.

    Special characters are neither letters, marks nor numbers in Unicode (categories other than L, M
    and N), nor white space. 0 to 1, and 0 for an empty caption; white space counts among all
    characters. Source: our own. With count="data-juicer" it is Data-Juicer's special_char_ratio,
    the same number, by its table of 1,618 characters: ASCII digits and white space are special too,
    as are letters such as "ø" and "一"; most symbols beyond emoji are not.
    """
    if not text:
        return 0.0
    special = _JUICER_SPECIAL_SET.__contains__ if count == "data-juicer" else is_special
    return sum(map(special, text)) / len(text)


@simple_score(
    low=0, high=1, ranges={"n": _LENGTHS}, optional=("unicode",), revision=2, small_is_good=True
)
def word_repetition(text: str, *, count: Count = "plain", n: int = 10) -> float:
    """Share of the caption's runs of ``n`` words that occur more than once; case does not matter.

    Words are what white space separates, numbers among them; punctuation at their ends makes no
    difference. 0 to 1; 0 if there are fewer than ``n`` words. ``n`` from 1 to 50. Source:
    Data-Juicer's word_rep_ratio, with other words. With count="data-juicer" it is the same number:
    Data-Juicer's words (see caption_words) exclude numbers.
    """
    found = (juicer_words if count == "data-juicer" else words)(text.lower())
    total = len(found) - n + 1
    if total < 1:
        return 0.0
    counts = Counter(tuple(found[start : start + n]) for start in range(total))
    return sum(times for times in counts.values() if times > 1) / total
