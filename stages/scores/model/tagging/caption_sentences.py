"""Captions as sentences for Stanza's taggers: limits, and what is split or refused above them."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

# Characters; the bound of Stanza's tokeniser.
LONGEST_WORD = 1_000
LONGEST_CAPTION = 100_000
# Stanza's replacement for a word above its bound.
UNKNOWN = "<UNK>"

Overlong = Literal["split", "refuse"]

_BLANK_LINE = re.compile(r"\n[\s\x80-\x9f]*\n")
_EDGES = re.compile(r"\A[\s\x80-\x9f]+|[\s\x80-\x9f]+\Z")
_LONG_RUN = re.compile(rf"([\x00-\x08\x0e-\x1b!-\x7f]{{{LONGEST_WORD + 1},}})")
# Words that Stanza would treat as padding and the like.
_RESERVED = frozenset({"<PAD>", "<EMPTY>", "<ROOT>"})


class RefusedSentence(NamedTuple):
    """The reason for which a caption is quarantined; see ScoreError."""

    slug: str
    detail: str


def paragraphs(text: str) -> list[str]:
    r"""Return the parts between blank lines, stripped: Stanza processes each separately.

    More than 1,000 ASCII characters without a space are a separate part (see ``is_word``), because
    Stanza's search for addresses takes quadratic time.

    >>> paragraphs(" One. Two. \n \n Three. ")
    ['One. Two.', 'Three.']
    """
    parts: list[str] = []
    for block in _BLANK_LINE.split(text):
        for part in _LONG_RUN.split(block):
            stripped = _EDGES.sub("", part)
            if stripped:
                parts.append(stripped)
    return parts


def is_word(paragraph: str) -> bool:
    """Return whether a paragraph is one endless word, which needs no tokeniser."""
    return _LONG_RUN.fullmatch(paragraph) is not None


def split_at_spaces(text: str) -> list[list[str]]:
    r"""Return the words of each line that has any, as Stanza does with ``tokenize_pretokenized``.

    >>> split_at_spaces("A dog .\n\nIt runs .")
    [['A', 'dog', '.'], ['It', 'runs', '.']]
    """
    lines = [line.split() for line in text.split("\n")]
    return [words for words in lines if words]


def refusal(
    sentences: Sequence[Sequence[str]], most_words: int, most_characters: int
) -> RefusedSentence | None:
    """Return the reason to quarantine a caption for a long sentence or word.

    None if it has none.
    """
    for words in sentences:
        if len(words) > most_words:
            return RefusedSentence(
                "long-sentence", f"a sentence has {len(words):,} words, more than {most_words:,}"
            )
        longest = max(len(word) for word in words)
        if longest > LONGEST_WORD:
            return RefusedSentence(
                "long-word", f"a word has {longest:,} characters, more than {LONGEST_WORD:,}"
            )
        if len(words) * (longest + 1) >= most_characters:
            size = f"{len(words):,} words, one of {longest:,} characters"
            return RefusedSentence(
                "long-sentence",
                f"a sentence has {size}: padded to it more than {most_characters:,}",
            )
    return None


def split_sentence(words: Sequence[str], most_words: int, most_characters: int) -> list[list[str]]:
    """Split a sentence into pieces, in order, each as long as possible.

    A piece has at most ``most_words`` words, and fewer than ``most_characters`` if each word is
    padded to the longest and has a space. Words above 1,000 characters become ``<UNK>``.

    >>> split_sentence("one two three four five".split(), 2, 1000)
    [['one', 'two'], ['three', 'four'], ['five']]
    """
    parts: list[list[str]] = []
    longest = 0
    for word in words:
        tagged = UNKNOWN if len(word) > LONGEST_WORD or word in _RESERVED else word
        longest = max(longest, len(tagged))
        size = len(parts[-1]) + 1 if parts else 0
        if not parts or size > most_words or size * (longest + 1) >= most_characters:
            parts.append([])
            longest = len(tagged)
        parts[-1].append(tagged)
    return parts
