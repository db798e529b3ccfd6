"""Brace patterns, as bash and webdataset expand them: ``{000..042}``, ``{a,b}``."""

import re
from collections.abc import Iterator

# Names.
LIMIT = 10_000_000

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?")
# At most, for a range of letters: those between Z and a count, too.
_MOST_LETTERS = 52


class BadPattern(ValueError):
    """A brace pattern that cannot be expanded."""


def expand_braces(pattern: str) -> list[str]:
    """Expand as bash and webdataset do. Raises ``BadPattern``.

    >>> expand_braces("{08..10}.tar")
    ['08.tar', '09.tar', '10.tar']
    >>> expand_braces("{1..10000000000000000}.tar")
    Traceback (most recent call last):
    wdsflow.shards.braces.BadPattern: it names 10,000,000,000,000,000 files; 10,000,000 are the most
    """
    if "{" not in pattern and "}" not in pattern:
        return [pattern]
    import braceexpand

    try:
        count = count_names(pattern)
        if count <= LIMIT:
            return list(braceexpand.braceexpand(pattern))
    except (RecursionError, ValueError) as error:
        # Unbalanced braces are a ValueError.
        raise BadPattern(str(error)) from None
    raise BadPattern(f"it names {count:,} files; {LIMIT:,} are the most")


def count_names(pattern: str) -> int:
    """Count the names of a pattern without expanding it.

    Unmatched braces count as one name.
    """
    total = 1
    for inner in _groups(pattern):
        if match := _RANGE.fullmatch(inner):
            start, end = int(match[1]), int(match[2])
            step = int(match[3] or 1) or 1
            total *= abs(end - start) // step + 1
        elif _LETTERS.fullmatch(inner):
            total *= _MOST_LETTERS
        else:
            total *= sum(map(count_names, _alternatives(inner)))
        # Far beyond; keeps the numbers small.
        if total > LIMIT**4:
            break
    return total


def _groups(pattern: str) -> Iterator[str]:
    """Yield the text between matching braces, outermost only."""
    depth = start = 0
    for at, char in _unescaped(pattern):
        if char == "{":
            if not depth:
                start = at + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                yield pattern[start:at]


def _alternatives(inner: str) -> list[str]:
    """Split at commas outside of further braces."""
    parts = []
    depth = start = 0
    for at, char in _unescaped(inner):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == "," and not depth:
            parts.append(inner[start:at])
            start = at + 1
    return [*parts, inner[start:]]


def _unescaped(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the characters that have no backslash before them, with their positions."""
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
            continue
        yield at, pattern[at]
        at += 1
