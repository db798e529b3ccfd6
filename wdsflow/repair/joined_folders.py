"""Folders that only separate the fields of samples: ``images/1.jpg`` and ``captions/1.txt``."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .dotted_names import split_base_name

# Indexes of the levels of a folder, in the order in which they are tried.
_LAST, _FIRST = -1, 0


class PathParts(NamedTuple):
    """The path of a member."""

    folder: str
    base: str


@dataclass
class _FolderContents:
    """The fields and the keys of the members of one folder."""

    fields: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


def join_folders(paths: list[PathParts]) -> list[PathParts]:
    """Return the paths without the folder level that only separates fields.

    Sibling folders are joined if no two of them have a field in common and each shares at least
    half of its keys with the others: the last level of a path is tried first, then the first one.

    >>> join_folders([PathParts("images", "1.jpg"), PathParts("captions", "1.txt")])
    [PathParts(folder='', base='1.jpg'), PathParts(folder='', base='1.txt')]
    """
    while new_folders := _joined(paths, _LAST) or _joined(paths, _FIRST):
        paths = [PathParts(new_folders.get(folder, folder), base) for folder, base in paths]
    return paths


def _joined(paths: Sequence[PathParts], level: int) -> dict[str, str]:
    """Return the folders that lose a level, with their names without it."""
    # In the order of the paths: the result must not depend on that of a set.
    folders = list(dict.fromkeys(folder for folder, _ in paths))
    candidates = _siblings(folders, level)
    if not candidates:
        return {}
    contents = _contents(paths, set().union(*candidates.values()))
    new_names: dict[str, str] = {}
    for joined, siblings in candidates.items():
        # A folder that already has a new name gets no second one.
        if not siblings.isdisjoint(new_names):
            continue
        if _are_parts([contents[folder] for folder in siblings]):
            for folder in siblings - {joined}:
                new_names[folder] = joined
    return new_names


def _siblings(folders: Sequence[str], level: int) -> dict[str, set[str]]:
    """Return the groups of several folders whose names are equal without one level, by this name.

    A folder that already has this name belongs to the group.
    """
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for folder in folders:
        if folder:
            levels = folder.split("/")
            del levels[level]
            by_name["/".join(levels)].add(folder)
    all_folders = set(folders)
    groups: dict[str, set[str]] = {}
    for name, group in by_name.items():
        if name in all_folders:
            group.add(name)
        if len(group) > 1:
            groups[name] = group
    return groups


def _contents(paths: Iterable[PathParts], folders: set[str]) -> dict[str, _FolderContents]:
    """Return the contents of some folders."""
    contents = {folder: _FolderContents() for folder in folders}
    for folder, base in paths:
        if folder in contents:
            _, extension = split_base_name(base)
            key, _, _ = base.partition(".")
            contents[folder].fields.add(extension.lower())
            contents[folder].keys.add(key)
    return contents


def _are_parts(folders: Sequence[_FolderContents]) -> bool:
    """Return whether folders hold parts of the same samples.

    They do if no field occurs twice and their keys are mostly the same.
    """
    all_fields = set().union(*(folder.fields for folder in folders))
    if len(all_fields) < sum(len(folder.fields) for folder in folders):
        return False
    for folder in folders:
        others = [other.keys for other in folders if other is not folder]
        shared = folder.keys.intersection(set().union(*others))
        if 2 * len(shared) < len(folder.keys):
            return False
    return True
