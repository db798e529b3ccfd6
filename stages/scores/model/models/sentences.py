"""Sentences of captions as a tagger gets them: none above a length, no word above a length."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

LONGEST_WORD = 1_000  # characters; Stanza's own bound where its tokeniser is asked
LONGEST_CAPTION = 100_000
UNKNOWN = "<UNK>"  # what Stanza writes for a word above its bound

Overlong = Literal["split", "refuse"]

_BLANK_LINE = re.compile(r"\n[\s\x80-\x9f]*\n")
_EDGES = re.compile(r"\A[\s\x80-\x9f]+|[\s\x80-\x9f]+\Z")
_LONG_RUN = re.compile(rf"([\x00-\x08\x0e-\x1b!-\x7f]{{{LONGEST_WORD + 1},}})")
_RESERVED = frozenset({"<PAD>", "<EMPTY>", "<ROOT>"})  # a word of this text would be taken for padding


class RefusedSentence(NamedTuple):
    """Why a caption is quarantined, as ScoreError has it."""

    slug: str
    detail: str


def paragraphs(text: str) -> list[str]:
    r"""Return the parts between blank lines, stripped: Stanza takes each for itself.

    More than 1,000 characters of ASCII without a space between them are a part of their own, see ``is_word``: Stanza's
    search for addresses in them takes time that grows with the square.

    >>> paragraphs(" One. Two. \n \n Three. ")
    ['One. Two.', 'Three.']
    """
    parts = (part for each in _BLANK_LINE.split(text) for part in _LONG_RUN.split(each))
    return [part for each in parts if (part := _EDGES.sub("", each))]


def is_word(paragraph: str) -> bool:
    """Return whether a paragraph is one endless word, which no tokeniser has to be asked about."""
    return _LONG_RUN.fullmatch(paragraph) is not None


def split_at_spaces(text: str) -> list[list[str]]:
    r"""Return the words of each line that has any, as Stanza does with ``tokenize_pretokenized``.

    >>> split_at_spaces("A dog .\n\nIt runs .")
    [['A', 'dog', '.'], ['It', 'runs', '.']]
    """
    return [words for line in text.split("\n") if (words := line.split())]


def refusal(sentences: Sequence[Sequence[str]], most_words: int, most_characters: int) -> RefusedSentence | None:
    """Return why a caption is quarantined where long sentences and words are refused; None if it is not."""
    for words in sentences:
        if len(words) > most_words:
            return RefusedSentence("long-sentence", f"a sentence has {len(words):,} words, more than {most_words:,}")
        if (longest := max(map(len, words))) > LONGEST_WORD:
            return RefusedSentence("long-word", f"a word has {longest:,} characters, more than {LONGEST_WORD:,}")
        if len(words) * (longest + 1) >= most_characters:
            about = f"{len(words):,} words, one of {longest:,} characters"
            return RefusedSentence(
                "long-sentence", f"a sentence has {about}: padded to it more than {most_characters:,}"
            )
    return None


def pieces(words: Sequence[str], most_words: int, most_characters: int) -> list[list[str]]:
    """Return a sentence in pieces, in order: each as long as may be.

    A piece has at most ``most_words`` words, and at most ``most_characters`` when each of them is padded to the longest
    and has a space. Words above 1,000 characters are ``<UNK>``.

    >>> pieces("one two three four five".split(), 2, 1000)
    [['one', 'two'], ['three', 'four'], ['five']]
    """
    made: list[list[str]] = []
    longest = 0
    for each in words:
        word = UNKNOWN if len(each) > LONGEST_WORD or each in _RESERVED else each
        longest = max(longest, len(word))
        size = len(made[-1]) + 1 if made else 0
        if not made or size > most_words or size * (longest + 1) >= most_characters:
            made.append([])
            longest = len(word)
        made[-1].append(word)
    return made
