"""The words of a caption: wdsflow's, and Data-Juicer's."""

import unicodedata
from itertools import filterfalse

from .juicer_characters import JUICER_SPECIAL


def words(text: str) -> list[str]:
    """Return the words between white space, without special characters at both ends.

    A word of special characters alone is kept as it is.

    >>> words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', '3', 'three', 'dogs', '--', 'and', "it's", '10']
    """
    return [_without_special_ends(part) for part in text.split()]


def juicer_words(text: str) -> list[str]:
    """Return Data-Juicer's words.

    Text is split at spaces, tabs and line ends, and Data-Juicer's special characters are stripped
    from each word. Empty words are left out.

    Numbers and lone punctuation are not words. Some letters, such as "ø" and "一", are special
    characters, too.

    >>> juicer_words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', 'three', 'dogs', 'and', "it's"]
    """
    parts = text.replace("\n", " ").replace("\t", " ").split(" ")
    stripped = [_juicer_stripped(part) for part in parts]
    return [word for word in stripped if word]


def _without_special_ends(part: str) -> str:
    if part.isalnum():
        return part
    first = next(filterfalse(is_special, part), None)
    if first is None:
        return part
    last = next(filterfalse(is_special, reversed(part)))
    return part[part.index(first) : part.rindex(last) + 1]


def _juicer_stripped(part: str) -> str:
    # No ASCII letter is special, and most words have no other characters.
    if part.isascii() and part.isalpha():
        return part
    return part.strip(JUICER_SPECIAL)


class _SpecialCharacters(dict[str, bool]):
    """Whether a character is punctuation, a symbol, an emoji or a control character.

    Each character is looked up once.
    """

    def __missing__(self, char: str) -> bool:
        is_letter_mark_or_number = unicodedata.category(char)[0] in "LMN"
        special = not is_letter_mark_or_number and not char.isspace()
        self[char] = special
        return special


is_special = _SpecialCharacters().__getitem__
