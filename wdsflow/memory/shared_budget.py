"""A budget of bytes that processes share."""

import mmap
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from .shared_memory import unnamed_file

# This part of the budget is taken without a request.
_SMALL = 8
# Seconds between two attempts.
_POLL = 0.003


class SharedBudget:
    """Bytes that ``processes`` may have in use at once; further requests wait.

    A request beyond the whole budget waits until it is alone, then gets all. Small requests are not
    counted: an eighth of the budget is reserved for them. For forked children. The lock is the
    kernel's, on a file: a killed process releases it.
    """

    def __init__(self, total: int, processes: int) -> None:
        # Bytes.
        self.total = total
        self._small = total // _SMALL // max(1, processes)
        self._most = total - self._small * processes
        self._fd = unnamed_file(mmap.PAGESIZE)
        # In use; the largest that waits.
        self._state = memoryview(mmap.mmap(self._fd, mmap.PAGESIZE)).cast("q")
        weakref.finalize(self, os.close, self._fd)

    def clear(self) -> None:
        """Forget the bytes of killed processes. No process may hold or wait now."""
        self._state[0] = self._state[1] = 0

    @property
    def used(self) -> int:
        """Bytes in use now, without small requests."""
        return self._state[0]

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes of the budget while the block runs; wait until they are free.

        For one thread of each process.
        """
        if size <= self._small:
            yield
            return
        while not self._take(size):
            time.sleep(_POLL)
        try:
            yield
        finally:
            with self._locked():
                self._state[0] -= size

    def _take(self, size: int) -> bool:
        with self._locked():
            used, waiting = self._state[0], self._state[1]
            # The largest goes first: smaller ones could otherwise block it forever.
            if used and (used + size > self._most or waiting > size):
                self._state[1] = max(waiting, size)
                return False
            if waiting <= size:
                self._state[1] = 0
            self._state[0] += size
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)
