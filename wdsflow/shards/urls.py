"""Expands what users write into a list of shards: braces, globs, folders, lists, urls."""

import glob
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from wdsflow.text.secrets import redact
from wdsflow.text.shell import quote, quote_path

from .braces import LIMIT, BadPattern, expand_braces
from .local_shards import GLOB, hint_for, is_list_of_shards, matching_files, missing_paths
from .numbered_names import SHOWN, missing_numbers
from .shard import PIPE, Shard, unsigned
from .source.base import SourceError, local_path
from .source.remote import is_listing, list_shards, pinned_url
from .url_errors import NEED_NO_COMMAND, JsonLinesGiven, NoShards, NoShardsGiven, PipeNotAllowed

__all__ = [
    "NEED_NO_COMMAND",
    "Expansion",
    "JsonLinesGiven",
    "NoShards",
    "PipeNotAllowed",
    "expand",
    "expand_existing",
    "with_dots",
]

_MATCHES_ITSELF = re.compile(r"[*?]")
_HYPHEN = re.compile(r"\{(\d+)-(\d+)\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
# As often as webdataset: values may name further variables.
_SUBSTITUTIONS = 10
# In a ``pipe:`` url, where the next source begins: other colons belong to the command.
_NEXT_SOURCE = re.compile(r"::(?=pipe:|[A-Za-z][A-Za-z0-9+.-]*://)")
_JSON_LINES = re.compile(r"\.jsonl(\.(gz|zst|bz2|xz))?$", re.IGNORECASE)
# Names of a pattern that are tested for globs and folders.
_TESTED = 1000


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

    What a pattern matches is a file, whatever its name looks like, and so is the name of an
    existing file. A ``Shard`` is the result of an earlier call: it stays.

    Raises:
        NoShards: a pattern matches nothing, stands for more than 10 million names, or matches a
            file of JSON lines.
        PipeNotAllowed: a ``pipe:`` url, also from a list, and ``allow_pipe`` is False.
    """
    result = Expansion([], [])
    for pattern in [urls] if isinstance(urls, str) else urls:
        if isinstance(pattern, Shard):
            result.urls.append(pattern)
        else:
            _expand_one(pattern, result, lists=True)
    for url in result.urls:
        if url.is_pipe and not allow_pipe:
            raise PipeNotAllowed(url)
        if _is_json_lines(url):
            raise JsonLinesGiven(url)
    _number_equal_texts(result.urls)
    return result


def expand_existing(urls: str | Iterable[str], *, allow_pipe: bool) -> list[Shard]:
    """Return the shards as ``expand`` does, if any exist.

    Raises NoShards if none is given or all are missing. Remote shards count as existing.
    """
    shards = expand(urls, allow_pipe=allow_pipe).urls
    if not shards:
        raise NoShardsGiven
    if not any(shard.path is None or os.path.exists(shard.path) for shard in shards):
        raise NoShards(shards[0], f"no such file: {os.path.abspath(shards[0])}")
    return shards


def _number_equal_texts(shards: list[Shard]) -> None:
    """Number the texts of shards that differ only in hidden parts.

    For example ``?key=a`` and ``?key=b``.
    """
    exact: dict[Shard, dict[str, int]] = {}
    for at, shard in enumerate(shards):
        if not shard.has_hidden_part:
            continue
        same_text = exact.setdefault(shard, {})
        number = same_text.setdefault(unsigned(shard.exact), len(same_text) + 1)
        if number > 1:
            shards[at] = shard.with_number(number)


def _is_json_lines(url: Shard) -> bool:
    """Return whether a shard is an existing, or a remote, file of JSON lines, by its name."""
    if ".jsonl" not in url.lower() or url.is_pipe:
        return False
    if url.path is None:
        return _JSON_LINES.search(url.partition("?")[0]) is not None
    return _JSON_LINES.search(url.path) is not None and os.path.isfile(url.path)


def _expand_one(pattern: str, result: Expansion, *, lists: bool) -> None:
    if pattern.startswith(PIPE):
        for command in _NEXT_SOURCE.split(pattern):
            _expand_source(command, result, lists=lists)
        return
    if not pattern.startswith("@") and _add_existing_file(pattern, result):
        return
    parts = [part.strip() for part in pattern.split("::") if part.strip()]
    if not parts:
        raise NoShards(pattern, "the pattern is empty")
    for part in parts:
        _expand_source(part, result, lists=lists)
        if len(result.urls) > LIMIT:
            raise NoShards(pattern, f"these are more than {LIMIT:,} shards")


def _expand_source(part: str, result: Expansion, *, lists: bool) -> None:
    if part.startswith(PIPE):
        result.urls.extend(map(Shard.command, _commands(part)))
    elif not part.startswith("@"):
        _expand_part(_substitute(part), result)
    elif lists:
        _expand_list(part, result)
    else:
        raise NoShards(part, "a list cannot name further lists")


def _commands(pattern: str) -> list[str]:
    """Return the commands of a ``pipe:`` url.

    Like webdataset, expands braces and webdataset's variables. A shell does the rest.
    """
    pattern = _with_variables(pattern)
    try:
        return expand_braces(pattern)
    except BadPattern:
        return [pattern]


def _substitute(pattern: str) -> str:
    """Substitute webdataset's environment variables, which may name further ones."""
    text = pattern
    for _ in range(_SUBSTITUTIONS):
        before = text
        text = _with_variables(text)
        if text == before:
            break
    unset = _VARIABLE.search(text)
    if unset is not None:
        raise NoShards(pattern, f"set the environment variable WDS_{unset[1]}")
    return text


def _with_variables(text: str) -> str:
    """Return a text with the values of webdataset's variables; those that are not set stay."""
    return _VARIABLE.sub(lambda match: os.environ.get(f"WDS_{match[1]}", match[0]), text)


def _expand_list(part: str, result: Expansion) -> None:
    before = len(result.urls)
    path = os.path.expanduser(part[1:])
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                text = line.strip()
                if "\0" in text:
                    file = quote_path(Shard.file(part[1:]))
                    raise NoShards(part, f"it is not a text: {file} names the file itself")
                if text and not text.startswith("#"):
                    _expand_one(text, result, lists=False)
    except OSError as error:
        raise NoShards(part, f"the list cannot be read: {error.strerror}") from None
    if len(result.urls) == before:
        raise NoShards(part, "the list is empty")


def _add_existing_file(text: str, result: Expansion) -> bool:
    """Take an existing file of this name, and return whether there is one.

    The name may look like a pattern.

    A glob that matches other files as well is a glob: a file that is called ``*.tar`` must not hide
    them.
    """
    path = local_path(text)
    if path is None or not os.path.exists(path) or os.path.isdir(path):
        return False
    if _MATCHES_ITSELF.search(path) and glob.glob(path, recursive=True) != [path]:
        return False
    if is_list_of_shards(path):
        raise NoShards(text, f"it lists shards: {quote(f'@{text}')} names those")
    result.urls.append(Shard.file(path))
    return True


def _expand_part(part: str, result: Expansion) -> None:
    if _add_existing_file(part, result):
        return
    corrected = with_dots(part)
    if corrected != part:
        raise NoShards(part, f"a range in braces has two dots: {quote_path(corrected)}")
    path = local_path(part)
    try:
        names = expand_braces(part if path is None else path)
    except BadPattern as error:
        raise NoShards(part, str(error)) from None
    if path is None:
        _add_remote(part, names, result)
    elif any(map(_matches_others, names[:_TESTED])):
        files = [Shard.file(match) for name in names for match in matching_files(name)]
        if not files:
            raise NoShards(part, hint_for(names[0]))
        _add_matches(part, files, result)
    elif names == [path]:
        result.urls.append(Shard.file(path))
    else:
        _add_range(part, names, result)


def with_dots(pattern: str) -> str:
    """Return a pattern with two dots in its ranges.

    >>> with_dots("s/{000-042}.tar")
    's/{000..042}.tar'
    """
    return _HYPHEN.sub(r"{\1..\2}", pattern)


def _matches_others(name: str) -> bool:
    """Return whether a name is a glob or a folder."""
    return bool(GLOB.search(name)) or name.endswith("/") or os.path.isdir(name)


def _add_range(part: str, names: list[str], result: Expansion) -> None:
    """Take all names of a range, whether they exist or not, unless none does."""
    missing = list(missing_paths(names))
    if len(missing) == len(names):
        raise NoShards(part, hint_for(names[0]))
    result.urls.extend(map(Shard.file, names))
    if missing:
        result.gaps.append((redact(part), missing[:SHOWN], len(missing)))


def _add_remote(part: str, names: list[str], result: Expansion) -> None:
    """Take remote names, expanding globs and folders.

    Globs and folders are expanded only if the server lists its files. Other names are taken as they
    are.
    """
    matches: list[Shard] = []
    try:
        # All workers read the same bytes.
        names = list(map(pinned_url, names))
        if not any(map(is_listing, names[:_TESTED])):
            result.urls.extend(map(Shard.url, names))
            return
        for name in names:
            matches += list_shards(name) if is_listing(name) else [Shard.url(name)]
    except SourceError as error:
        raise NoShards(part, str(error)) from None
    if not matches:
        raise NoShards(part, f"the server has no such .tar: {names[0]}")
    _add_matches(part, matches, result)


def _add_matches(part: str, matches: list[Shard], result: Expansion) -> None:
    """Take the contents of globs and folders, and note missing numbers."""
    result.urls.extend(matches)
    for gap in missing_numbers(matches):
        result.gaps.append((redact(part), gap.names, gap.total))
