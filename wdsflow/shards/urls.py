"""From what a user writes to shards: braces, globs, folders, lists, urls."""

import difflib
import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import braceexpand

MOST = 10_000_000  # names that one pattern may stand for
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_REMOTE = re.compile(r"^(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+:")  # one letter is a Windows drive
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_RANGE = re.compile(r"\{(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?\}")
_NUMBER = re.compile(r"(\d+)(?=\D*$)")
_GLOB = re.compile(r"[*?\[]")


class NoShards(ValueError):
    """A pattern that matches nothing. ``hint`` says what may have been meant, "" if nothing comes to mind."""

    def __init__(self, pattern: str, hint: str = "") -> None:
        super().__init__(f"no shards match {pattern!r}")
        self.pattern = pattern
        self.hint = hint


class Expansion(NamedTuple):
    """The shards, in order, and what is missing between them: pattern, first names, how many."""

    urls: list[str]
    gaps: list[tuple[str, list[str], int]]


def expand(urls: Iterable[str]) -> Expansion:
    """Expand what the user wrote into shards.

    Takes bash's braces, globs (sorted as people count), folders (every tar in them), ``@list.txt`` (one url a line,
    ``#`` begins a comment), ``::`` between sources, ``~``, and ``${NAME}`` for the environment variable WDS_NAME as
    webdataset does. Remote and ``pipe:`` urls are not globbed. A plain path stays, whether or not it exists.

    Raises:
        NoShards: a pattern matches nothing, or stands for more than 10 million names.
    """
    found: list[str] = []
    gaps: list[tuple[str, list[str], int]] = []
    for written in urls:
        for part in [written] if written.startswith("pipe:") else written.split("::"):
            for pattern in _lines(part):
                names, missing = _expand(_substituted(pattern))
                found += names
                if missing:
                    gaps.append((pattern, missing[:20], len(missing)))
    return Expansion(found, gaps)


def _lines(part: str) -> Iterator[str]:
    if not part.startswith("@"):
        yield part
        return
    try:
        lines = Path(part[1:]).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoShards(part, f"the list cannot be read: {error}") from error
    kept = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not kept:
        raise NoShards(part, "the list is empty")
    yield from kept


def _substituted(pattern: str) -> str:
    for _ in range(10):
        changed = _VARIABLE.sub(lambda match: os.environ.get(f"WDS_{match[1]}", match[0]), pattern)
        if changed == pattern:
            break
        pattern = changed
    if match := _VARIABLE.search(pattern):
        raise NoShards(pattern, f"set the environment variable WDS_{match[1]}")
    return pattern


def _expand(pattern: str) -> tuple[list[str], list[str]]:
    if pattern.startswith("pipe:"):
        return [pattern], []
    if _REMOTE.match(pattern):
        return _braced(pattern), []
    pattern = os.path.expanduser(pattern.removeprefix("file://").removeprefix("file:"))
    if os.path.exists(pattern) and not os.path.isdir(pattern):
        return [pattern], []
    names = _braced(pattern) if "{" in pattern else [pattern]
    if os.path.isdir(pattern):
        return _listed(pattern, [os.path.join(pattern, name) for name in os.listdir(pattern)])
    if any(_GLOB.search(name) for name in names):
        return _listed(pattern, [match for name in names for match in glob.glob(name)])
    if len(names) == 1:
        return names, []
    missing = [name for name in names if not os.path.exists(name)]
    if len(missing) == len(names):
        raise NoShards(pattern, _hint(names[0]))
    return names, missing


def _braced(pattern: str) -> list[str]:
    if _size(pattern) > MOST:
        raise NoShards(pattern, f"it stands for more than {MOST:,} names")
    try:
        return list(braceexpand.braceexpand(pattern))
    except ValueError as error:
        raise NoShards(pattern, f"its braces do not match: {error}") from error


def _size(pattern: str) -> int:
    """Return at least as many names as the pattern stands for, without making them."""
    total: int = 1
    for match in _RANGE.finditer(pattern):
        first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
        total *= abs(last - first) // step + 1
    return total * int((pattern.count(",") + 1) ** min(pattern.count("{"), 40))


def _listed(pattern: str, paths: list[str]) -> tuple[list[str], list[str]]:
    """Keep tars of a folder or glob, in natural order, and name the numbers that are left out."""
    files = [path for path in paths if not os.path.isdir(path)]
    tars = [path for path in files if path.lower().endswith(SUFFIXES)]
    kept = sorted(set(tars if os.path.isdir(pattern) else files), key=_natural)
    if not kept:
        raise NoShards(pattern, "there is no .tar in this folder" if paths else _hint(pattern))
    return kept, _left_out(kept)


def _natural(path: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path) if part]


def _left_out(paths: list[str]) -> list[str]:
    """Return names between the first and the last number of a series that nobody has."""
    series: dict[tuple[str, str], dict[int, int]] = {}
    for path in paths:
        if match := _NUMBER.search(path):
            series.setdefault((path[: match.start()], path[match.end() :]), {})[int(match[1])] = len(match[1])
    missing = []
    for (before, after), numbers in series.items():
        span = max(numbers) - min(numbers) + 1
        # A few numbers far apart are dates or hashes, not a series with holes.
        if 2 < len(numbers) < span <= 2 * len(numbers):
            width = min(numbers.values())
            missing += [f"{before}{n:0{width}d}{after}" for n in range(min(numbers), max(numbers)) if n not in numbers]
    return missing


def _hint(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    names = sorted(os.listdir(folder))
    tars = [name for name in names if name.lower().endswith(SUFFIXES)]
    near = difflib.get_close_matches(os.path.basename(path), tars, n=1)
    if near:
        return f"{folder} has {len(tars):,} tars, such as {near[0]}"
    return f"{folder} has {len(tars):,} tars" + (f", the first is {tars[0]}" if tars else "")
