"""One run at a time in a folder."""

import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # no Unix: nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]


class Busy(Exception):
    """Another run works in the folder."""


class Lock:
    """Holds a file locked until ``close``, or until the last process is gone that inherited ``fd``.

    A run that was killed leaves nothing behind to be cleaned up. Raises Busy.
    """

    def __init__(self, path: Path, patience: float = 5.0, *, shared: bool = False) -> None:
        self.path = path
        self.fd = self._open()
        until = time.monotonic() + patience  # workers of a killed run take a moment to notice
        while True:
            if self._take(shared=shared):
                if self._is_there():
                    return
                os.close(self.fd)  # who held it has removed it: it keeps nobody away any more
                self.fd = self._open()
                continue
            if time.monotonic() >= until:
                os.close(self.fd)
                raise Busy(f"another run works in {path.parent.parent}; wait for it or stop it")
            time.sleep(0.05)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _take(self, *, shared: bool) -> bool:
        if fcntl is None:
            return True
        try:
            fcntl.flock(self.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: nothing keeps two runs apart there
            return True
        return True

    def remove(self) -> None:
        """Remove the file while it is held; who waits for it makes a new one."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it."""
        os.close(self.fd)

    def __enter__(self) -> "Lock":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
