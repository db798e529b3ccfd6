"""Special characters, and words as Data-Juicer counts them."""

import unicodedata
from itertools import filterfalse

# Marks that Data-Juicer's table of special characters lacks. Its numbers are what users compare with.
_NO_MARKS = frozenset("∶━〈〉％")


class _Table(dict[str, bool]):
    def __missing__(self, char: str) -> bool:
        special = unicodedata.category(char)[0] not in "LM" and char not in _NO_MARKS
        self[char] = special
        return special


is_special = _Table().__getitem__


def words(text: str) -> list[str]:
    """Return the words: split at spaces, tabs and line ends, special characters stripped from both ends, none empty.

    Numbers and lone punctuation are no words.

    >>> words("A cat, 3 (three) dogs -- and it's 10°")
    ['A', 'cat', 'three', 'dogs', 'and', "it's"]
    """
    parts = text.replace("\n", " ").replace("\t", " ").split(" ")
    if all(map(str.isalpha, parts)):
        return parts
    found = []
    for word in parts:
        if not word.isalpha():
            first = next(filterfalse(is_special, word), None)
            if first is None:
                continue
            last = next(filterfalse(is_special, reversed(word)))
            found.append(word[word.index(first) : word.rindex(last) + 1])
        elif word:
            found.append(word)
    return found
