"""A budget of bytes that several threads share."""

import threading
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
