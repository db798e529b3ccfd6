"""Removes what runs leave behind.

That is locks, scratch folders, empty folders, and temporary files of killed runs.
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import remove_stale_files

from .folder_lock import Busy, Lock
from .unfinished import INSIDE


def tidy(folder: Path, scratch: Iterable[Path], *, made: bool) -> None:
    """Remove locks and empty folders, unless another run works in ``folder``.

    Args:
        folder: the output folder.
        scratch: folders that only a run in progress needs; they are removed with their contents.
        made: this run created ``folder``: it is removed, too, if it is empty.
    """
    inside = folder / INSIDE
    with suppress(Busy, OSError), Lock(inside / "lock", patience=0) as lock:
        for path in scratch:
            shutil.rmtree(path, ignore_errors=True)
        _remove_empty_folders(inside)
        _remove_locks(inside, lock)
        lock.remove()
    # Not empty.
    with suppress(OSError):
        inside.rmdir()
        if made:
            folder.rmdir()


def remove_leftovers(inside: Path, folders: Iterable[Path], scratch: Iterable[Path]) -> int:
    """Remove scratch folders, and temporary files of killed processes.

    Temporary files of running processes are locked, so they stay.

    Args:
        inside: all folders in it are looked at.
        folders: of the outputs.
        scratch: folders that only a run in progress needs.

    Returns how many temporary files were removed.
    """
    for path in scratch:
        shutil.rmtree(path, ignore_errors=True)
    inner_folders = [Path(folder) for folder, _, _ in os.walk(inside)]
    count = 0
    for folder in (*folders, *inner_folders):
        with suppress(FileNotFoundError, NotADirectoryError):
            count += remove_stale_files(folder)
    return count


def _remove_empty_folders(inside: Path) -> None:
    for path, _, _ in os.walk(inside, topdown=False):
        # Not empty.
        with suppress(OSError):
            os.rmdir(path)


def _remove_locks(inside: Path, but: Lock) -> None:
    """Remove the locks that nobody holds, except one."""
    for path in inside.glob("lock*"):
        if path == but.path:
            continue
        with suppress(Busy, OSError), Lock(path, patience=0) as lock:
            lock.remove()
