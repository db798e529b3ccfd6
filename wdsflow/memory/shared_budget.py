"""A budget of bytes that several processes share."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SMALL = 8  # this part of the budget is taken without asking


class SharedBudget:
    """Bytes that ``processes`` may have in use at once; who wants more waits.

    A request beyond the whole budget waits until it is alone, then gets it: whoever must not should ask less. Small
    requests are not counted one by one: an eighth of the budget is set aside for them. For forked children.
    """

    def __init__(self, total: int, processes: int) -> None:
        context = multiprocessing.get_context("fork")
        self.total = total  # bytes
        self._small = total // _SMALL // max(1, processes)
        self._most = total - self._small * processes
        self._changed = context.Condition()
        self._used: Any = context.RawValue("q", 0)
        self._waiting: Any = context.RawValue("q", 0)  # bytes of the largest that waits

    @property
    def used(self) -> int:
        """Bytes in use now, but for small ones."""
        return int(self._used.value)

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free. For one thread of each process."""
        if size <= self._small:
            yield
            return
        with self._changed:
            # The largest goes first: smaller ones would else keep it waiting for ever.
            while self._used.value and (self._used.value + size > self._most or self._waiting.value > size):
                self._waiting.value = max(self._waiting.value, size)
                self._changed.wait()
            if self._waiting.value <= size:
                self._waiting.value = 0
            self._used.value += size
        try:
            yield
        finally:
            with self._changed:
                self._used.value -= size
                self._changed.notify_all()
