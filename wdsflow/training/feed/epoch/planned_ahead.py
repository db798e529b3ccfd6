"""An epoch planned before it begins, so that its first batch need not wait for servers."""

import atexit
import weakref
from collections.abc import Callable

from .planner import Planner

_living: "weakref.WeakSet[PlannedAhead]" = weakref.WeakSet()


class PlannedAhead:
    """The planner of an epoch that has not begun.

    Streams of shards that cannot seek already read ahead.

    Args:
        epoch: its number.
        plan: makes the planner. Its argument is what the planner calls periodically.
    """

    def __init__(self, epoch: int, plan: Callable[[Callable[[], None]], Planner]) -> None:
        self.epoch = epoch
        self._idle: Callable[[], None] | None = None
        self._planner: Planner | None = plan(self._call_idle)
        _living.add(self)

    def begin(self, idle: Callable[[], None]) -> Planner:
        """Return the planner, once: it calls ``idle`` from now on, and its caller closes it."""
        assert self._planner is not None
        self._idle = idle
        planner, self._planner = self._planner, None
        return planner

    def close(self) -> None:
        """Stop reading ahead, unless the epoch has begun."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def abandon(self) -> None:
        """Stop reading ahead soon. Takes no lock: garbage collection may call it anywhere."""
        if self._planner is not None:
            self._planner.abandon()

    def _call_idle(self) -> None:
        if self._idle is not None:
            self._idle()


@atexit.register
def _close_all() -> None:
    for ahead in list(_living):
        ahead.close()
