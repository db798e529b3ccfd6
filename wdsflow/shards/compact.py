"""From many shards to the few patterns that stand for them: the way back from ``urls.expand``."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .patterns import expand_braces
from .urls import NoShards, expand

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
_MEANS_MORE = re.compile(r"[{}*?\[\]@~$,]|::")  # a name with these may stand for others


def compact(urls: Sequence[str], most: int = 4) -> list[str]:
    """Return at most ``most`` patterns that stand for these shards in this order, or the shards where there are none.

    >>> compact([f"s/{number:03d}.tar" for number in (0, 1, 2, 3, 4, 7)])
    ['s/{000..004}.tar', 's/007.tar']
    >>> compact(["a.tar", "b.tar"])
    ['a.tar', 'b.tar']
    """
    if len(urls) <= most or any(_MEANS_MORE.search(url) for url in urls):
        return list(urls)
    ranges = list(_ranges(urls))
    if len(ranges) <= most and [name for pattern in ranges for name in expand_braces(pattern)] == list(urls):
        return ranges
    folder = os.path.dirname(urls[0]) or "."
    return [f"{folder}/"] if _holds(folder, urls) else list(urls)


class _Name(NamedTuple):
    url: str
    before: str
    number: str  # the last one in it, "" if there is none
    behind: str


def _named(url: str) -> _Name:
    match = _NUMBERED.fullmatch(url)
    return _Name(url, match[1], match[2], match[3]) if match else _Name(url, "", "", "")


def _ranges(urls: Iterable[str]) -> Iterator[str]:
    """Yield braces for neighbours that differ in their last number, which rises by one."""
    held: list[_Name] = []
    for name in map(_named, urls):
        if held and not _follows(held[-1], name):
            yield _range(held)
            held = []
        held.append(name)
    if held:
        yield _range(held)


def _follows(one: _Name, other: _Name) -> bool:
    if not one.number or (one.before, one.behind) != (other.before, other.behind):
        return False
    width = len(one.number) if one.number.startswith("0") else 0  # as bash counts: {9..11} has no zeros in front
    return other.number == f"{int(one.number) + 1:0{width}d}"


def _range(held: Sequence[_Name]) -> str:
    first = held[0]
    return first.url if len(held) == 1 else f"{first.before}{{{first.number}..{held[-1].number}}}{first.behind}"


def _holds(folder: str, urls: Sequence[str]) -> bool:
    """Return whether these are all shards of a folder, in the order in which it is read."""
    if not os.path.isdir(folder):
        return False
    try:
        found = expand([folder]).urls
    except NoShards:  # these are folders themselves, or shards that were deleted
        return False
    return [os.path.normpath(url) for url in found] == [os.path.normpath(url) for url in urls]
