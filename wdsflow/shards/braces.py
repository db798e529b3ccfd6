"""Brace patterns such as ``{000..042}``, bounded before anything is expanded."""

import re
from collections.abc import Iterator

LIMIT = 10_000_000  # names

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?")


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
        if count > LIMIT:
            raise BadPattern(f"it names {count:,} files; {LIMIT:,} are the most")
        return list(braceexpand.braceexpand(pattern))
    except BadPattern:
        raise
    except (RecursionError, ValueError) as error:  # unbalanced braces are a ValueError
        raise BadPattern(str(error)) from None


def count_names(pattern: str) -> int:
    """Count what a pattern expands to, without expanding it; braces that do not match count for one name."""
    total = 1
    for inner in _groups(pattern):
        total *= _count_inside(inner)
        if total > LIMIT**4:  # far beyond; keeps the numbers small
            break
    return total


def _count_inside(inner: str) -> int:
    if match := _RANGE.fullmatch(inner):
        start, end, step = int(match[1]), int(match[2]), int(match[3] or 1) or 1
        return abs(end - start) // step + 1
    if match := _LETTERS.fullmatch(inner):
        return 52
    alternatives = _alternatives(inner)
    return sum(map(count_names, alternatives)) if len(alternatives) > 1 else count_names(inner)


def _groups(pattern: str) -> Iterator[str]:
    """Yield what stands between braces that match, outermost only."""
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
    depth, cuts = 0, [-1]
    for at, char in _unescaped(inner):
        if char == "," and not depth:
            cuts.append(at)
        depth += {"{": 1, "}": -1}.get(char, 0)
    return [inner[one + 1 : other] for one, other in zip(cuts, [*cuts[1:], len(inner)], strict=True)]


def _unescaped(pattern: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
            continue
        yield at, pattern[at]
        at += 1
