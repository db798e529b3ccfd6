"""A budget of bytes that several processes share."""

import mmap
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from .nameless import nameless_file

_SMALL = 8  # this part of the budget is taken without asking
_POLL = 0.003  # seconds between two looks whether there is room


class SharedBudget:
    """Bytes that ``processes`` may have in use at once; who wants more waits.

    A request beyond the whole budget waits until it is alone, then gets it: whoever must not should ask less. Small
    requests are not counted one by one: an eighth of the budget is set aside for them. For forked children. The lock
    is the kernel's, for a file: a process that is killed gives it back.
    """

    def __init__(self, total: int, processes: int) -> None:
        self.total = total  # bytes
        self._small = total // _SMALL // max(1, processes)
        self._most = total - self._small * processes
        self._fd = nameless_file(mmap.PAGESIZE)
        self._state = memoryview(mmap.mmap(self._fd, mmap.PAGESIZE)).cast("q")  # in use; the largest that waits
        weakref.finalize(self, os.close, self._fd)

    def clear(self) -> None:
        """Forget what processes held that have been killed. Nobody may hold or wait now."""
        self._state[0] = self._state[1] = 0

    @property
    def used(self) -> int:
        """Bytes in use now, but for small ones."""
        return self._state[0]

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free. For one thread of each process."""
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
            # The largest goes first: smaller ones would otherwise keep it waiting forever.
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
