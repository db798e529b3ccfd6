"""Temporary folders of runs, and the removal of those that earlier runs have left because they were killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIXES = ("wdsflow-run-", "wdsflow-cache-", "wdsflow-copies-", "wdsflow-check-", "wdsflow-ranks-")
# Locked as long as the process lives that made the folder, however it ends.
_LOCK = ".wdsflow-lock"


@contextmanager
def run_folder(prefix: str) -> Iterator[str]:
    """Make a temporary folder that is removed afterwards; ``prefix``: one of ``PREFIXES``.

    A process that is killed leaves its folder. The next one removes it.
    """
    if prefix not in PREFIXES:
        raise ValueError(f"{prefix} is none of {PREFIXES}: its folders would stay if the process is killed")
    remove_abandoned()
    folder = tempfile.mkdtemp(prefix=prefix)
    # It gets its name when it is locked: before that, another process would take the folder for an abandoned one.
    unnamed = os.path.join(folder, f"{_LOCK}-{os.getpid()}")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(unnamed, os.path.join(folder, _LOCK))
        yield folder
    finally:
        # What the user's processes still write there may come back for a moment: that is no error of the run.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of runs whose process does not live any more."""
    for prefix in PREFIXES:
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            # Another user's folder, or one that another process removes at the same time.
            with suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    # A folder without a lock is perhaps being made: it is left alone. A link is not followed.
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
