"""The lock of a local folder: a file that one run holds, or the slices of one run share."""

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:
    # No Unix: two runs are not kept apart.
    fcntl = None  # type: ignore[assignment]

# Seconds between two tries.
_WAIT = 0.05


class Busy(Exception):
    """Another run works in the folder."""


class Lock:
    """Holds a file locked until ``close``, or until the last process ends that inherited ``fd``.

    A killed run leaves nothing to clean up.

    Args:
        path: the file, in the folder inside; created if it does not exist.
        patience: seconds to wait for another run. Workers of a killed run take a moment to notice.
        shared: others may share the lock.

    Raises:
        Busy: another run holds the lock.
    """

    def __init__(self, path: Path, patience: float = 5.0, *, shared: bool = False) -> None:
        self.path = path
        until = time.monotonic() + patience
        while True:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            is_locked = self._lock(shared=shared)
            if is_locked and self._is_current():
                return
            os.close(self.fd)
            # A removed file is opened again at once.
            if is_locked:
                continue
            if time.monotonic() >= until:
                raise Busy(f"another run works in {path.parent.parent}; wait for it or stop it")
            time.sleep(_WAIT)

    def _lock(self, *, shared: bool) -> bool:
        if fcntl is None:
            return True
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks: two runs are not kept apart there.
            pass
        return True

    def _is_current(self) -> bool:
        """Return whether the locked file still has its name.

        Another run may have removed the file when it ended.
        """
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        return False

    def remove(self) -> None:
        """Remove the file while it is held; a process that waits for it makes a new one."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        os.close(self.fd)

    def __enter__(self) -> "Lock":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_held(path: Path) -> bool:
    """Return whether a process holds a lock, as far as this machine can see."""
    # No such file.
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (OSError, AttributeError):
            # No locks here.
            return False
        finally:
            os.close(fd)
    return False
