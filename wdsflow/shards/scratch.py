"""Temporary folders that are removed when their process ends.

After a killed process, the next process removes them.
"""

import atexit
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"
_held: dict[Path, int] = {}


def make_scratch(parent: Path, kind: str = "map") -> Path:
    """Make a folder in another one, and remove those of its kind that no process holds.

    It is removed when this process ends, not when a fork of it does.
    """
    parent.mkdir(parents=True, exist_ok=True)
    # A lock may be visible on its own host only.
    prefix = f"wdsflow-{kind}-{socket.gethostname()}-"
    _remove_stale(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    atexit.register(_remove_own, folder, os.getpid())
    unseen = folder / "lock.new"
    _held[folder] = os.open(unseen, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    # Without locks, it has no lock file, and no process mistakes it for a stale one.
    with suppress(OSError):
        fcntl.flock(_held[folder], fcntl.LOCK_EX | fcntl.LOCK_NB)
        unseen.rename(folder / _LOCK)
    return folder


def remove_scratch(folder: Path) -> None:
    """Remove a folder now."""
    shutil.rmtree(folder, ignore_errors=True)
    if (file := _held.pop(folder, None)) is not None:
        os.close(file)


@contextmanager
def scratch(kind: str, parent: Path | None = None) -> Iterator[Path]:
    """Make such a folder for a block; by default among the system's temporary files."""
    folder = make_scratch(parent or Path(tempfile.gettempdir()), kind)
    try:
        yield folder
    finally:
        remove_scratch(folder)


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        remove_scratch(folder)


def _remove_stale(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if folder in _held or folder.lstat().st_uid != os.getuid() or folder.is_symlink():
                continue
            file = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(file)
