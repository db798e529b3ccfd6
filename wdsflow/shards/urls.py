"""Expands what users write into a list of shards: braces, globs, folders, lists, urls."""

import difflib
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape, quote, quote_path
from wdsflow.text.words import how_many

from .shard import PIPE, Shard, unsigned
from .shard_names import LIMIT, SHOWN, SUFFIXES, BadPattern, expand_braces, missing_numbers, natural
from .source.base import SourceError, local_path
from .source.remote import is_listing, listed, pinned

_GLOB = re.compile(r"[*?\[]")
_MATCHES_ITSELF = re.compile(r"[*?]")
_HYPHEN = re.compile(r"\{(\d+)-(\d+)\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
# In a ``pipe:`` url, where the next source begins: other colons belong to the command.
_NEXT_SOURCE = re.compile(r"::(?=pipe:|[A-Za-z][A-Za-z0-9+.-]*://)")
_JSON_LINES = re.compile(r"\.jsonl(\.(gz|zst|bz2|xz))?$", re.IGNORECASE)
# That are looked into for tars.
_FOLDERS = 1000
# Bytes of a text file in which its first shard is looked for.
_LIST = 4096
# Names in one folder from which on it is listed instead of asked for each.
_MANY = 64


NEED_NO_COMMAND = "s3://, gs://, hf:// and https:// urls are read without a command"

# Shards that a short look reads, at most. A pipe must be read to its end.
_LOOKED_AT, _LOOKED_AT_REMOTE, _LOOKED_AT_PIPED = 2_000, 200, 4


class NoShards(ValueError):
    """A pattern that matches nothing or makes no sense. ``hint`` is a correction."""

    def __init__(self, pattern: str, hint: str = "") -> None:
        super().__init__(f"no shards match {redact(pattern)!r}")
        self.pattern, self.hint = pattern, redact(hint)


class JsonLinesGiven(NoShards):
    """A file of JSON lines in place of shards. ``hint`` is the command that makes shards of it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, f"to make shards of it: wdsflow pack {quote_path(url)} -o shards")
        self.args = (f"{redact(url)} is a file of JSON lines; shards are tars",)


class PipeNotAllowed(NoShards):
    """A ``pipe:`` url, which would run a shell command, and nobody has said that it may."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(
            shard,
            f"if it may run, give --allow-pipe, or allow_pipe=True in Python; {NEED_NO_COMMAND}",
        )
        self.args = (f"{escape(shard, 300)} would run a shell command",)


class Expansion(NamedTuple):
    """The shards, in order, and missing ones between them: pattern, first names, how many."""

    urls: list[Shard]
    gaps: list[tuple[str, list[str], int]]


def expand(urls: str | Iterable[str], *, allow_pipe: bool) -> Expansion:
    """Expand what the user wrote into shards, in that order; duplicates stay.

    ``allow_pipe``: whether ``pipe:`` urls may be among them; nothing is run here.

    Takes bash's braces, globs (sorted as people count), folders (every tar in them), ``@list.txt``
    (a pattern a line, ``#`` begins a comment), ``::`` between sources, ``~``, and ``${NAME}`` for
    the environment variable WDS_NAME as webdataset does. Of ``pipe:`` urls only braces are
    expanded; of http urls a folder and ``*`` are, where the server lists its files on a page. A
    plain path stays, whether or not it exists, and so does a name of a range.

    What a pattern finds is a file, whatever its name looks like, and so is the name of an existing
    file. A ``Shard`` is what an earlier call has found: it stays.

    Raises:
        NoShards: a pattern matches nothing, stands for more than 10 million names, or matches a file of JSON lines.
        PipeNotAllowed: a ``pipe:`` url, also from a list, and ``allow_pipe`` is False.
    """
    found = Expansion([], [])
    for pattern in [urls] if isinstance(urls, str) else urls:
        if isinstance(pattern, Shard):
            found.urls.append(pattern)
        else:
            _expand_one(pattern, found, lists=True)
    for url in found.urls:
        if url.is_pipe and not allow_pipe:
            raise PipeNotAllowed(url)
        if _is_json_lines(url):
            raise JsonLinesGiven(url)
    _tell_apart(found.urls)
    return found


def expand_existing(urls: str | Iterable[str], *, allow_pipe: bool) -> list[Shard]:
    """Return the shards, as ``expand``. Raises NoShards if all of them are missing; remote ones count as existing."""
    found = expand(urls, allow_pipe=allow_pipe).urls
    if not any(url.path is None or os.path.exists(url.path) for url in found):
        raise NoShards(found[0], f"no such file: {os.path.abspath(found[0])}")
    return found


def _tell_apart(shards: list[Shard]) -> None:
    """Number the texts of shards that differ only in what is hidden, such as ``?key=a`` and ``?key=b``."""
    exact: dict[Shard, dict[str, int]] = {}
    for at, shard in enumerate(shards):
        if not shard.hides:
            continue
        same = exact.setdefault(shard, {})
        number = same.setdefault(unsigned(shard.exact), len(same) + 1)
        if number > 1:
            shards[at] = shard.numbered(number)


def _is_json_lines(url: Shard) -> bool:
    """Return whether a shard is an existing, or a remote, file of JSON lines, by its name."""
    if ".jsonl" not in url.lower() or url.is_pipe:
        return False
    if url.path is None:
        return _JSON_LINES.search(url.partition("?")[0]) is not None
    return _JSON_LINES.search(url.path) is not None and os.path.isfile(url.path)


def _expand_one(pattern: str, found: Expansion, *, lists: bool) -> None:
    if pattern.startswith(PIPE):
        for command in _NEXT_SOURCE.split(pattern):
            _expand_source(command, found, lists=lists)
        return
    if not pattern.startswith("@") and _take_file(pattern, found):
        return
    parts = [part.strip() for part in pattern.split("::") if part.strip()]
    if not parts:
        raise NoShards(pattern, "the pattern is empty")
    for part in parts:
        _expand_source(part, found, lists=lists)
        if len(found.urls) > LIMIT:
            raise NoShards(pattern, f"these are more than {LIMIT:,} shards")


def _expand_source(part: str, found: Expansion, *, lists: bool) -> None:
    if part.startswith(PIPE):
        found.urls.extend(map(Shard.command, _commands(part)))
    elif not part.startswith("@"):
        _expand_part(_substitute(part), found)
    elif lists:
        _expand_list(part, found)
    else:
        raise NoShards(part, "a list cannot name further lists")


def _commands(pattern: str) -> list[str]:
    """Return the commands of a ``pipe:`` url: webdataset expands braces and its variables in it; a shell does the rest."""
    pattern = _VARIABLE.sub(lambda match: os.environ.get(f"WDS_{match[1]}", match[0]), pattern)
    try:
        return expand_braces(pattern)
    except BadPattern:
        return [pattern]


def _substitute(pattern: str) -> str:
    """Substitute webdataset's environment variables, which may name further ones."""
    result = pattern
    # As often as webdataset.
    for _ in range(10):
        before, result = (
            result,
            _VARIABLE.sub(lambda match: os.environ.get(f"WDS_{match[1]}", match[0]), result),
        )
        if before == result:
            break
    if match := _VARIABLE.search(result):
        raise NoShards(pattern, f"set the environment variable WDS_{match[1]}")
    return result


def _expand_list(part: str, found: Expansion) -> None:
    before = len(found.urls)
    try:
        with open(
            os.path.expanduser(part[1:]), encoding="utf-8", errors="surrogateescape"
        ) as lines:
            for line in lines:
                text = line.strip()
                if "\0" in text:
                    raise NoShards(
                        part,
                        f"it is not a text: {quote_path(Shard.file(part[1:]))} names the file itself",
                    )
                if text and not text.startswith("#"):
                    _expand_one(text, found, lists=False)
    except OSError as error:
        raise NoShards(part, f"the list cannot be read: {error.strerror}") from None
    if len(found.urls) == before:
        raise NoShards(part, "the list is empty")


def _take_file(text: str, found: Expansion) -> bool:
    """Take an existing file of this name, also if the name looks like a pattern; return whether there is one.

    A glob that matches other files as well is a glob: a file that is called ``*.tar`` must not hide
    them.
    """
    path = local_path(text)
    if path is None or not os.path.exists(path) or os.path.isdir(path):
        return False
    if _MATCHES_ITSELF.search(path) and glob.glob(path, recursive=True) != [path]:
        return False
    if _is_list(path):
        raise NoShards(text, f"it lists shards: {quote(f'@{text}')} names those")
    found.urls.append(Shard.file(path))
    return True


def _expand_part(part: str, found: Expansion) -> None:
    if _take_file(part, found):
        return
    if (meant := with_dots(part)) != part:
        raise NoShards(part, f"a range in braces has two dots: {quote_path(meant)}")
    path = local_path(part)
    try:
        names = expand_braces(part if path is None else path)
    except BadPattern as error:
        raise NoShards(part, str(error)) from None
    if path is None:
        _take_remote(part, names, found)
    elif any(
        _GLOB.search(name) or name.endswith("/") or os.path.isdir(name) for name in names[:1000]
    ):
        matches = [match for name in names for match in _matches(name)]
        _take_found(part, [*map(Shard.file, matches)], "" if matches else _hint(names[0]), found)
    elif names == [path]:
        found.urls.append(Shard.file(path))
    else:
        # All names of a range count, whether they exist or not.
        missing = list(absent(names))
        if len(missing) == len(names):
            raise NoShards(part, _hint(names[0]))
        found.urls.extend(map(Shard.file, names))
        if missing:
            found.gaps.append((redact(part), missing[:SHOWN], len(missing)))


def with_dots(pattern: str) -> str:
    """Return a pattern with two dots in its ranges.

    >>> with_dots("s/{000-042}.tar")
    's/{000..042}.tar'
    """
    return _HYPHEN.sub(r"{\1..\2}", pattern)


def _is_list(path: str) -> bool:
    """Return whether a file is a text whose first line names a shard."""
    if path.lower().endswith(SUFFIXES) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(_LIST)
    except OSError:
        return False
    lines = (line.strip() for line in start.splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    return b"\0" not in start and first.lower().endswith(tuple(map(str.encode, SUFFIXES)))


def _take_remote(part: str, names: list[str], found: Expansion) -> None:
    """Take names as they are; of globs and folders of a server that lists its files, their contents."""
    matches: list[Shard] = []
    try:
        # All workers read the same bytes.
        names = list(map(pinned, names))
        if not any(is_listing(name) for name in names[:1000]):
            found.urls.extend(map(Shard.url, names))
            return
        for name in names:
            matches += listed(name) if is_listing(name) else [Shard.url(name)]
    except SourceError as error:
        raise NoShards(part, str(error)) from None
    _take_found(part, matches, f"the server has no such .tar: {names[0]}", found)


def _take_found(part: str, matches: list[Shard], hint: str, found: Expansion) -> None:
    """Take the contents of globs and folders, and note missing numbers."""
    if not matches:
        raise NoShards(part, hint)
    found.urls.extend(matches)
    found.gaps.extend((redact(part), gap.names, gap.total) for gap in missing_numbers(matches))


def _matches(name: str) -> list[str]:
    if os.path.isdir(name):
        return _tars_in(name)
    matches = sorted(glob.glob(name, recursive=True), key=natural)
    files = [match for match in matches if not os.path.isdir(match)]
    # `shards/*` means the shards, not files next to them.
    if files:
        return [match for match in files if match.lower().endswith(SUFFIXES)] or files
    return [tar for match in matches for tar in _tars_in(match)]


def _tars_in(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    tars = (name for name in names if name.lower().endswith(SUFFIXES) and not name.startswith("."))
    return [os.path.join(folder, name) for name in sorted(tars, key=natural)]


def deeper(folder: str) -> str:
    """Return a glob for tars in folders of a folder, at any depth; "" where there are none among the first thousand folders."""
    for inside, _, names in islice(os.walk(folder), _FOLDERS):
        if inside != folder and any(name.lower().endswith(SUFFIXES) for name in names):
            return os.path.join(glob.escape(folder), "**", "*.tar*")
    return ""


def absent(names: Sequence[str]) -> Iterator[str]:
    """Yield the paths that do not exist; folders of many are listed once."""
    listed: dict[str, set[str]] = {}
    for name in names:
        folder, base = os.path.split(name)
        if len(names) >= _MANY and folder not in listed:
            try:
                listed[folder] = set(os.listdir(folder or "."))
            except OSError:
                listed[folder] = set()
        if base not in listed[folder] if folder in listed else not os.path.exists(name):
            yield name


def _hint(name: str) -> str:
    """Return what exists instead."""
    folder = name.rstrip("/") if name.endswith("/") else os.path.dirname(name) or "."
    while _GLOB.search(folder):
        folder = os.path.dirname(folder) or "."
    if os.path.isdir(name):
        folder = name
    if not os.path.isdir(folder):
        return f"no such folder: {folder}"
    try:
        os.listdir(folder)
    except OSError as error:
        return f"the folder {folder} cannot be read: {error.strerror}"
    tars = [os.path.basename(tar) for tar in _tars_in(folder)]
    if not tars:
        found = deeper(folder)
        return f"the folder {folder} has no .tar{f' itself; subfolders have: {quote(found)}' if found else ''}"
    near = difflib.get_close_matches(os.path.basename(name), tars, n=1)
    some = (
        f"such as {near[0]}" if near else f"{tars[0]} to {tars[-1]}" if len(tars) > 1 else tars[0]
    )
    return f"{folder} has {how_many(len(tars), 'tar')}, {some}"


def some_of(urls: Sequence[Shard]) -> Sequence[Shard]:
    """Return shards for a short look, spread evenly: all, unless they are many or remote."""
    kind = urls[0].kind if urls else "file"
    most = {"pipe": _LOOKED_AT_PIPED, "url": _LOOKED_AT_REMOTE, "file": _LOOKED_AT}[kind]
    return (
        urls if len(urls) <= most else [urls[number * len(urls) // most] for number in range(most)]
    )
