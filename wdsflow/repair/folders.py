"""Join folders that hold different fields of the same samples: ``img/a.jpg`` and ``txt/a.txt``."""

from collections import defaultdict
from collections.abc import Sequence

from wdsflow.repair.dots import cut

Path = tuple[str, str]  # folder, base name


def join_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without the folder level that only separates fields.

    Sibling folders are joined if no two of them have a field in common and each shares at least half of its keys with
    the others: the last level of a path is tried first, then the first one.
    """
    found = list(paths)
    while moved := _moves(found, -1) or _moves(found, 0):
        found = [(moved.get(folder, folder), base) for folder, base in found]
    return found


def _moves(paths: list[Path], level: int) -> dict[str, str]:
    """Which folder becomes which if one level is taken out."""
    folders = {folder for folder, _ in paths}
    if len(folders) < 2:
        return {}
    groups: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        if folder:
            levels = folder.split("/")
            del levels[level]
            groups["/".join(levels)].add(folder)
    for target, group in groups.items():
        if target in folders:
            group.add(target)
    wanted = {folder for group in groups.values() if len(group) > 1 for folder in group}
    fields: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, set[str]] = defaultdict(set)
    for folder, base in paths:
        if folder in wanted:
            fields[folder].add(cut(base)[1].lower())
            keys[folder].add(base.partition(".")[0])
    moves: dict[str, str] = {}
    for target, group in groups.items():
        if len(group) > 1 and not group & moves.keys() and _are_parts(group, fields, keys):
            moves.update({folder: target for folder in group if folder != target})
    return moves


def _are_parts(group: set[str], fields: dict[str, set[str]], keys: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    for folder in group:
        if seen & fields[folder]:
            return False
        seen |= fields[folder]
    for folder in group:
        others = set().union(*(keys[other] for other in group if other != folder))
        if 2 * len(keys[folder] & others) < len(keys[folder]):
            return False
    return True
