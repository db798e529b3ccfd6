"""Suggestions for a path that does not exist."""

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.local_shards import recursive_glob
from wdsflow.shards.shard import PIPE, Shard
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import local_path
from wdsflow.shards.urls import NoShards, expand, with_dots

# The least similarity of a name that is suggested.
_SIMILAR = 0.6
_WILDCARD = re.compile(r"[*?\[{]")


def nearest_shards(pattern: str) -> str:
    """Return the existing shards nearest to a pattern without matches.

    "" if none is similar, or if the pattern has matches.

    A file of the named folder, the folder itself, a folder deeper in it, or a folder next to it; a
    range with two dots; the entries of a list.
    """
    corrected_range = with_dots(pattern)
    if corrected_range != pattern:
        is_remote = local_path(corrected_range) is None
        return corrected_range if is_remote or _holds_shards(corrected_range) else ""
    path = None if pattern.startswith(PIPE) else local_path(pattern)
    if path is None or path.startswith("@"):
        return ""
    if os.path.isfile(path):
        # It may be a list of shards.
        return f"@{pattern}" if _holds_shards(f"@{path}") else ""
    if _holds_shards(pattern):
        # They exist; the problem is another one.
        return ""
    return _nearest_in_folder(path)


def _nearest_in_folder(path: str) -> str:
    """Return the shards nearest to a path in the deepest of its folders that exists.

    "" if none is similar.
    """
    parts = Path(path).parts
    depth = _existing_depth(parts)
    folder = str(Path(*parts[:depth])) if depth else "."
    missing_name = "".join(parts[depth : depth + 1])
    deeper_parts = parts[depth + 1 :]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ""
    # Suggestions are relative if the path is.
    prefix = folder if depth else ""
    candidates = [os.path.join(prefix, name) for name in names if not name.startswith(".")]
    missing = os.path.join(prefix, missing_name)
    if not deeper_parts and _WILDCARD.search(missing_name):
        return _pattern_with_shards(missing) or (folder if _holds_shards(folder) else "")
    shards = [
        candidate
        for candidate in candidates
        if candidate.lower().endswith(".tar") and os.path.isfile(candidate)
    ]
    nearest_shard = _most_similar(missing, shards)
    if not deeper_parts and nearest_shard is not None:
        return nearest_shard
    folders = [
        candidate
        for candidate in candidates
        if os.path.isdir(candidate) and _holds_shards(candidate)
    ]
    nearest_folder = _most_similar(missing, folders)
    if not deeper_parts and nearest_folder is None and shards and _holds_shards(folder):
        return folder
    pattern_below = "" if missing_name else recursive_glob(path)
    if pattern_below:
        return pattern_below
    if nearest_folder is None:
        return ""
    for suggestion in (os.path.join(nearest_folder, *deeper_parts), nearest_folder):
        if _holds_shards(suggestion):
            return suggestion
    return ""


def _existing_depth(parts: Sequence[str]) -> int:
    """Return how many of the first parts of a path are a folder that exists."""
    depth = 0
    while depth < len(parts) and os.path.isdir(Path(*parts[: depth + 1])):
        depth += 1
    return depth


def _pattern_with_shards(pattern: str) -> str:
    """Return a pattern with the ending of a shard that has matches; "" if there is none."""
    stem = os.path.splitext(pattern)[0]
    for suffix in SUFFIXES:
        for candidate in (f"{stem}{suffix}", f"{pattern}{suffix}"):
            if _holds_shards(candidate):
                return candidate
    return ""


def nearest_ledger(path: Path) -> Path | None:
    """Return the folder with ledgers whose name is nearest to a path; None if there is none.

    It is next to the path, or in the working directory.

    If there is only one, its name need not be similar.
    """
    from wdsflow.records.run_folder import Layout

    folders: dict[str, Path] = {}
    for parent in (Path(), path.parent):
        # A folder that does not exist, or cannot be read.
        with suppress(OSError):
            for folder in sorted(parent.iterdir()):
                if Layout(folder).has_ledgers:
                    folders[folder.name] = folder
    name = _most_similar(path.name, list(folders))
    if name is None and len(folders) == 1:
        (name,) = folders
    return None if name is None else folders[name]


def existing(urls: Iterable[str]) -> list[Shard]:
    """Return the shards that match patterns, without local files that do not exist."""
    return [
        url
        for url in expand(urls, allow_pipe=True).urls
        if url.path is None or os.path.exists(url.path)
    ]


def _most_similar(path: str, candidates: Sequence[str]) -> str | None:
    """Return the candidate whose last part is nearest to that of a path.

    None if none is similar.
    """
    name = os.path.basename(path).lower()
    best: str | None = None
    best_ratio = 0.0
    for candidate in candidates:
        ratio = difflib.SequenceMatcher(None, name, os.path.basename(candidate).lower()).ratio()
        if ratio >= _SIMILAR and ratio > best_ratio:
            best = candidate
            best_ratio = ratio
    return best


def _holds_shards(path: str) -> bool:
    try:
        return bool(existing([path]))
    except NoShards:
        return False
