"""Writes shards as users would.

A name becomes a pattern that matches only itself, many names become few patterns.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .braces import expand_braces
from .numbered_names import is_next
from .shard import Shard
from .urls import NoShards, expand

_MATCHES_ITSELF = re.compile(r"[*?]")
_SPECIAL = re.compile(r"[{}*?\[\\]|:(?=:)")
# A question mark begins its query.
_SPECIAL_IN_URL = re.compile(r"[{}*\[\\]|:(?=:)")
_WEB = re.compile("https?:")
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
# A name with these may stand for others.
_MEANS_MORE = re.compile(r"[{}*?\[\]~$,]|::|^@")


class _NumberedName(NamedTuple):
    """A name, split at its last number."""

    before: str
    number: str
    after: str


def pattern_of_shard(shard: str) -> str:
    r"""Return the text that makes ``expand`` return this shard alone.

    A pattern is returned unchanged.

    >>> pattern_of_shard(Shard.url("s3://bucket/t{1..2}[a].tar")), pattern_of_shard(Shard.file("t{1..2}.tar")), pattern_of_shard("{1..2}.tar")
    ('s3://bucket/t\\{1..2\\}[[]a].tar', 't{1..2}.tar', '{1..2}.tar')
    >>> pattern_of_shard(Shard.file("?.tar"))
    '[?].tar'
    """
    if not isinstance(shard, Shard) or shard.is_pipe:
        return shard
    if shard.path is not None and not _MATCHES_ITSELF.search(shard):
        return shard
    if _WEB.match(shard):
        return _SPECIAL_IN_URL.sub(lambda match: f"%{ord(match[0]):02X}", shard)
    special = _SPECIAL if shard.path is not None else _SPECIAL_IN_URL
    has_braces = "{" in shard or "}" in shard
    return special.sub(lambda match: _escaped(match[0], has_braces=has_braces), shard)


def _escaped(char: str, *, has_braces: bool) -> str:
    """Return a character that stands for itself in braces and globs."""
    if char in "{}":
        return f"\\{char}"
    if char == "\\":
        return "\\\\" if has_braces else char
    return f"[{char}]"


def compact_patterns(urls: Sequence[str], most: int = 4) -> list[str]:
    """Return at most ``most`` patterns that expand to these shards in this order.

    The shards themselves if there are no such patterns.

    >>> compact_patterns([f"s/{number:03d}.tar" for number in (0, 1, 2, 3, 4, 7)])
    ['s/{000..004}.tar', 's/007.tar']
    >>> compact_patterns(["a.tar", "b.tar"])
    ['a.tar', 'b.tar']
    """
    names = [pattern_of_shard(url) for url in urls]
    if len(urls) <= most or any(_MEANS_MORE.search(url) for url in urls):
        return names
    ranges = list(_ranges(urls))
    if len(ranges) <= most:
        expanded = [name for pattern in ranges for name in expand_braces(pattern)]
        if expanded == list(urls):
            return ranges
    folder = os.path.dirname(urls[0]) or "."
    return [f"{folder}/"] if _holds(folder, urls) else names


def _ranges(urls: Iterable[str]) -> Iterator[str]:
    """Yield braces for neighbours that differ in their last number, which rises by one."""
    run: list[_NumberedName] = []
    for url in urls:
        match = _NUMBERED.fullmatch(url)
        name = _NumberedName(*match.groups()) if match else _NumberedName(url, "", "")
        if run and not _follows(run[-1], name):
            yield _range(run)
            run = []
        run.append(name)
    if run:
        yield _range(run)


def _follows(name: _NumberedName, other: _NumberedName) -> bool:
    if not name.number or (name.before, name.after) != (other.before, other.after):
        return False
    return is_next(name.number, other.number)


def _range(run: Sequence[_NumberedName]) -> str:
    before, number, after = run[0]
    if len(run) > 1:
        number = f"{{{number}..{run[-1].number}}}"
    return f"{before}{number}{after}"


def _holds(folder: str, urls: Sequence[str]) -> bool:
    """Return whether these are all shards of a folder, in the order in which it is read."""
    if not os.path.isdir(folder):
        return False
    try:
        shards = expand([folder], allow_pipe=False).urls
    except NoShards:
        # These are folders themselves, or shards that were deleted.
        return False
    return [os.path.normpath(url) for url in shards] == [os.path.normpath(url) for url in urls]
