"""Scores that count in captions: characters, words, tokens, repetitions."""

from collections import Counter
from math import isqrt
from typing import Any

from .base import Count
from .juicer_characters import JUICER_SPECIAL
from .simple_score import simple_score
from .tokenizer_limits import tokenizable, trim_cache
from .words import is_special, juicer_words, words

# Of an n-gram, in characters or words.
_LENGTHS = (1, 50)

_JUICER_SPECIAL_SET = frozenset(JUICER_SPECIAL)


@simple_score(low=0, high=1, optional=("unicode",))
def alnum_ratio(text: str) -> float:
    """Share of the caption's characters that are letters or digits of any script.

    Determined by ``str.isalnum``; 0 if the caption is empty.

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
    """Number of tokens of the caption in OpenCLIP's tokenizer of ``model``.

    Start and end marks are not counted.

    Captions of more than 75 tokens are cut in training if the context has 77, as for ViT-B-32. From
    0 on. Captions of more than 20,000 characters, or with a word of more than 500, are an error
    ("too-long"). Source: ``open_clip.get_tokenizer``. Imports torch.
    """
    from ..named_tokenizers import named_tokenizer

    tokenizable(text)
    tokenizer: Any = named_tokenizer(model)
    encode = getattr(tokenizer, "encode", None)
    if encode is None:
        # A tokenizer of transformers.
        encoding = tokenizer.tokenizer(tokenizer.clean_fn(text), add_special_tokens=False)
        return len(encoding.input_ids)
    tokens = len(encode(text))
    trim_cache(tokenizer)
    return tokens


@simple_score(unit="words", low=0, optional=("unicode",), revision=2)
def caption_words(text: str, *, count: Count = "plain") -> int:
    """Number of words in the caption, separated by white space.

    "500 Japanese yen." has 3 words. Text in a script without spaces is one word.

    From 0 on. Source: our own; the same as ``len(caption.split())`` in Python, which DataComp's
    basic filter counts. With count="data-juicer" it is Data-Juicer's num_words, the same number;
    "500 Japanese yen." has 2: its special characters (see special_char_ratio), digits among them,
    are stripped from each word's ends, and empty words do not count.
    """
    if count == "data-juicer":
        return len(juicer_words(text))
    return len(text.split())


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
    most_frequent = sorted(counts.values(), reverse=True)[:most]
    return sum(most_frequent) / total


@simple_score(low=0, high=1, optional=("unicode",), revision=2, small_is_good=True)
def special_char_ratio(text: str, *, count: Count = "plain") -> float:
    """Share of the caption's characters that are special, such as punctuation or emoji.

    Symbols and control characters are special too.

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
    split = juicer_words if count == "data-juicer" else words
    parts = split(text.lower())
    total = len(parts) - n + 1
    if total < 1:
        return 0.0
    counts = Counter(tuple(parts[start : start + n]) for start in range(total))
    return sum(times for times in counts.values() if times > 1) / total
