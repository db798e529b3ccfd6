"""Budgets of bytes that several threads or processes share."""

import mmap
import os
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Budget:
    """Bytes that may be in use at once; who wants more waits, in the order of asking.

    A request beyond the whole budget waits until it is alone, then gets it: whoever must not should ask less.
    """

    def __init__(self, total: int) -> None:
        self.total = total  # bytes
        self.most = 0  # bytes in use at once so far
        self._used = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes in use now."""
        return self._used

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                # First come, first served: small requests would else keep a large one waiting forever.
                self._changed.wait_for(
                    lambda: self._waiting[0] is ticket and (not self._used or self._used + size <= self.total)
                )
            finally:
                self._waiting.remove(ticket)
            self._used += size
            self.most = max(self.most, self._used)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


# Memory that forked processes share: files without a name, gone with their last user.
#
# Never ``/dev/shm``: containers often have 64 MiB there, and semaphores of multiprocessing are files there too.


def nameless_file(size: int) -> int:
    """Return the descriptor of a file of ``size`` zero bytes, in memory where the system can, else in a temporary folder.

    It takes memory, or room on the disk, only where something is written.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("wdsflow")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


def shared_memory(size: int) -> mmap.mmap:
    """Return ``size`` bytes that this process and those forked from it share."""
    fd = nameless_file(size)
    try:
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


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
