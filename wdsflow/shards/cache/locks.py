"""Locks of open files (flock), which end with their process, also if it is killed.

A lock belongs to an open file, which a forked process shares: it closes those files, so that it
cannot keep the lock of a parent that was killed.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

# Descriptors with a lock.
_held: set[int] = set()


def lock(file: int) -> None:
    """Lock an open file, once no other process, and no other opening in this one, has."""
    _held.add(file)
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: int) -> bool:
    """Lock an open file, unless somebody has; return whether it is locked now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _held.add(file)
    return True


def unlock(file: int) -> None:
    """Release the lock of an open file if it has one, also where a forked process shares it."""
    _held.discard(file)
    fcntl.flock(file, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file; False if there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _close_in_child() -> None:
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
