"""Local shards: those matched by globs and folders, and suggestions for missing ones."""

import difflib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

from .numbered_names import natural_order
from .shard_names import SUFFIXES

GLOB = re.compile(r"[*?\[]")
# That are searched for tars.
_FOLDERS = 1000
# Bytes of a text file in which its first shard is searched.
_LIST = 4096
# Names in one folder from which on it is listed, instead of a look-up for each.
_MANY = 64


def matching_files(name: str) -> list[str]:
    """Return the tars of a folder, or the files that a glob matches, in natural order."""
    if os.path.isdir(name):
        return _tars_in(name)
    matches = sorted(glob.glob(name, recursive=True), key=natural_order)
    files = [match for match in matches if not os.path.isdir(match)]
    if not files:
        return [tar for match in matches for tar in _tars_in(match)]
    # `shards/*` means the shards, not files next to them.
    tars = [match for match in files if _is_tar(match)]
    return tars or files


def recursive_glob(folder: str) -> str:
    """Return a glob for tars in subfolders of a folder, at any depth.

    "" if the first thousand folders contain none.
    """
    for inside, _, names in islice(os.walk(folder), _FOLDERS):
        if inside != folder and any(map(_is_tar, names)):
            return os.path.join(glob.escape(folder), "**", "*.tar*")
    return ""


def missing_paths(names: Sequence[str]) -> Iterator[str]:
    """Yield the paths that do not exist; folders of many are listed once."""
    listed: dict[str, set[str]] = {}
    for name in names:
        if len(names) < _MANY:
            exists = os.path.exists(name)
        else:
            folder, base = os.path.split(name)
            if folder not in listed:
                listed[folder] = _names_in(folder)
            exists = base in listed[folder]
        if not exists:
            yield name


def is_list_of_shards(path: str) -> bool:
    """Return whether a file is a text whose first line names a shard."""
    if _is_tar(path) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(_LIST)
    except OSError:
        return False
    if b"\0" in start:
        return False
    for line in start.splitlines():
        text = line.strip()
        if text and not text.startswith(b"#"):
            return text.lower().endswith(tuple(map(str.encode, SUFFIXES)))
    return False


def hint_for(name: str) -> str:
    """Return what exists in place of a file, folder or glob that matches nothing."""
    folder = name.rstrip("/") if name.endswith("/") else os.path.dirname(name) or "."
    while GLOB.search(folder):
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
        pattern = recursive_glob(folder)
        in_subfolders = f" itself; subfolders have: {quote(pattern)}" if pattern else ""
        return f"the folder {folder} has no .tar{in_subfolders}"
    near = difflib.get_close_matches(os.path.basename(name), tars, n=1)
    if near:
        examples = f"such as {near[0]}"
    elif len(tars) > 1:
        examples = f"{tars[0]} to {tars[-1]}"
    else:
        examples = tars[0]
    return f"{folder} has {how_many(len(tars), 'tar')}, {examples}"


def _names_in(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder or "."))
    except OSError:
        return set()


def _tars_in(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    tars = [name for name in names if _is_tar(name) and not name.startswith(".")]
    return [os.path.join(folder, name) for name in sorted(tars, key=natural_order)]


def _is_tar(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)
