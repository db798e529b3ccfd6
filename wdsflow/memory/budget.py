"""A budget of bytes that the threads of a process share."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Budget:
    """Bytes that may be in use at once; further requests wait, in their order.

    A request beyond the whole budget waits until it is alone, then gets all.
    """

    def __init__(self, total: int) -> None:
        # Bytes.
        self.total = total
        # Bytes in use, now and at most.
        self.used = self.peak = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                # First come, first served: otherwise small
                # requests could block a large one forever.
                self._changed.wait_for(
                    lambda: (
                        self._waiting[0] is ticket
                        and (not self.used or self.used + size <= self.total)
                    )
                )
            finally:
                self._waiting.remove(ticket)
            self.used += size
            self.peak = max(self.peak, self.used)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self.used -= size
                self._changed.notify_all()
