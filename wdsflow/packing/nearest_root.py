"""Where the files of a table are, if they are not in its folder."""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_MOST_FOLDERS = 1000


def nearest_root(folder: Path, paths: Iterable[str]) -> Path | None:
    """Return a folder near a table's folder in which one of the paths is a file.

    It is the parent of the table's folder, or a folder in it.

    None if there is none. Paths that lead out of a folder are not looked for.
    """
    inner_paths = [path for path in paths if _is_inside(path)]
    try:
        entries = list(islice(folder.iterdir(), _MOST_FOLDERS))
        candidates = sorted(entry for entry in entries if entry.is_dir())
    except OSError:
        candidates = []
    candidates.append(folder.absolute().parent)
    for candidate in candidates:
        if any((candidate / path).is_file() for path in inner_paths):
            return candidate
    return None


def _is_inside(path: str) -> bool:
    """Return whether a path leads to something in a folder."""
    return bool(path) and not os.path.isabs(path) and ".." not in Path(path).parts
