"""Special characters and words of a caption, by the plain count and by Data-Juicer's."""

import unicodedata
from collections.abc import Callable
from itertools import filterfalse

# Marks that Data-Juicer's table of special characters lacks. Its numbers are what users compare with.
_NO_MARKS = frozenset("∶━〈〉％")


class _Special(dict[str, bool]):
    """Punctuation, symbols, emoji, control characters."""

    def __missing__(self, char: str) -> bool:
        self[char] = special = unicodedata.category(char)[0] not in "LMN" and not char.isspace()
        return special


class _JuicerSpecial(dict[str, bool]):
    """Digits and white space, too."""

    def __missing__(self, char: str) -> bool:
        self[char] = special = unicodedata.category(char)[0] not in "LM" and char not in _NO_MARKS
        return special


is_special = _Special().__getitem__
is_juicer_special = _JuicerSpecial().__getitem__


def words(text: str) -> list[str]:
    """Return the words between white space, without special characters at both ends unless a word has no others.

    >>> words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', '3', 'three', 'dogs', '--', 'and', "it's", '10']
    """
    return [word if word.isalnum() else _stripped(word, is_special) or word for word in text.split()]


def juicer_words(text: str) -> list[str]:
    """Return Data-Juicer's words: split at spaces, tabs and line ends, its special characters stripped, none empty.

    Numbers and lone punctuation are not words.

    >>> juicer_words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', 'three', 'dogs', 'and', "it's"]
    """
    parts = text.replace("\n", " ").replace("\t", " ").split(" ")
    if all(map(str.isalpha, parts)):
        return parts
    stripped = (word if word.isalpha() else _stripped(word, is_juicer_special) for word in parts)
    return [word for word in stripped if word]


def _stripped(word: str, is_special: Callable[[str], bool]) -> str:
    first = next(filterfalse(is_special, word), None)
    if first is None:
        return ""
    last = next(filterfalse(is_special, reversed(word)))
    return word[word.index(first) : word.rindex(last) + 1]
