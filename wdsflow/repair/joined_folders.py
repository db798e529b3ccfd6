"""Folders that only separate the fields of samples: ``images/1.jpg`` and ``captions/1.txt``."""

from collections import defaultdict
from typing import NamedTuple

from .dotted_names import cut


class PathParts(NamedTuple):
    """The path of a member."""

    folder: str
    base: str


def join_folders(paths: list[PathParts]) -> list[PathParts]:
    """Return the paths without the folder level that only separates fields.

    Sibling folders are joined if no two of them have a field in common and each shares at least
    half of its keys with the others: the last level of a path is tried first, then the first one.

    >>> join_folders([PathParts("images", "1.jpg"), PathParts("captions", "1.txt")])
    [PathParts(folder='', base='1.jpg'), PathParts(folder='', base='1.txt')]
    """
    while new_folders := _without_level(paths, -1) or _without_level(paths, 0):
        paths = [PathParts(new_folders.get(folder, folder), base) for folder, base in paths]
    return paths


def _without_level(paths: list[PathParts], level: int) -> dict[str, str]:
    """Map folders that are parts of the same samples to their names without one level."""
    # In the order of the paths: the result must not depend on that of a set.
    folders = list(dict.fromkeys(folder for folder, _ in paths))
    if len(folders) < 2:
        return {}
    candidates = _siblings(folders, level)
    examined = set().union(*candidates.values())
    fields: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, set[str]] = defaultdict(set)
    for folder, base in paths:
        if folder in examined:
            fields[folder].add(cut(base)[1].lower())
            keys[folder].add(base.partition(".")[0])
    new_names: dict[str, str] = {}
    for target, group in candidates.items():
        # A folder gets one new name.
        if group.isdisjoint(new_names) and _are_parts(group, fields, keys):
            new_names |= dict.fromkeys(group - {target}, target)
    return new_names


def _siblings(folders: list[str], level: int) -> dict[str, set[str]]:
    """Return the groups of folders that have the same name without one level, with the folder of that name."""
    siblings: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        if folder:
            levels = folder.split("/")
            del levels[level]
            siblings["/".join(levels)].add(folder)
    all_folders = set(folders)
    groups: dict[str, set[str]] = {}
    for target, group in siblings.items():
        if target in all_folders:
            group.add(target)
        if len(group) > 1:
            groups[target] = group
    return groups


def _are_parts(group: set[str], fields: dict[str, set[str]], keys: dict[str, set[str]]) -> bool:
    """Return whether folders hold parts of the same samples: no field twice, and mostly the same keys."""
    distinct = set().union(*(fields[folder] for folder in group))
    if len(distinct) < sum(len(fields[folder]) for folder in group):
        return False
    for folder in group:
        others = set().union(*(keys[other] for other in group if other != folder))
        if 2 * len(keys[folder] & others) < len(keys[folder]):
            return False
    return True
