"""Where the files of a table are, if they are not in its folder."""

import os
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

_MOST_FOLDERS = 1000


def nearest_root(folder: Path, paths: Iterable[str]) -> Path | None:
    """Return a folder near that of a table in which one of the paths is a file: its parent, or a folder in it.

    None if there is none. Paths that lead out of a folder are not looked for.
    """
    wanted = [
        path for path in paths if path and not os.path.isabs(path) and ".." not in Path(path).parts
    ]
    try:
        inside = sorted(
            entry for entry in islice(folder.iterdir(), _MOST_FOLDERS) if entry.is_dir()
        )
    except OSError:
        inside = []
    for candidate in chain(inside, [folder.absolute().parent]):
        if any((candidate / path).is_file() for path in wanted):
            return candidate
    return None
