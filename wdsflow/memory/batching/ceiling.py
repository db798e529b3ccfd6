"""The bound on the cost of a batch, moved by experience."""

from typing import NamedTuple

# Batches before a cost that did not fit is doubted.
_FIRST_WAIT = 64
_LONGEST_WAIT = 4096


class CeilingState(NamedTuple):
    """The state of a ceiling: bound, largest cost that worked, smallest cost that failed."""

    limit: int | None = None
    worked: int = 0
    failed: int | None = None


class Ceiling:
    """The bound on the cost of a batch, moved by experience.

    ``limit`` is None as long as nothing bounds it. A batch that does not fit lowers it by three
    tenths, or to the largest cost that worked. ``patience`` clean batches in a row that it cut
    short raise it by a quarter, at most half of the way to the known bad cost; as long as none is
    known, each doubles it. Where good and bad have met, the bad one is doubted after 64 clean
    batches and counted a tenth higher, as another process may have left the device; each time that
    this was wrong it waits twice as long. ``max_limit`` is never passed, such as where passing it
    would end the process.
    """

    def __init__(
        self, state: CeilingState | None = None, *, max_limit: int | None = None, patience: int = 8
    ) -> None:
        self.state = state or CeilingState()
        self.max_limit = max_limit
        self.patience = patience
        # Batches that the limit cut short since it last moved.
        self._limited_batches = 0
        self._batches_until_doubt = _FIRST_WAIT
        # Times in a row without a failure.
        self._doubts = 0
        if max_limit is not None and (self.limit is None or self.limit > max_limit):
            self.state = self.state._replace(limit=max_limit)

    @property
    def limit(self) -> int | None:
        """The largest cost that a batch of several items may have now."""
        return self.state.limit

    def record_success(self, cost: int, *, limited: bool) -> None:
        """Note that a batch worked; ``limited``: it would have had more items but for the limit."""
        limit, worked, failed = self.state
        if failed is not None and cost >= failed:
            # One large item is no evidence about many small ones.
            return
        self.state = CeilingState(limit, max(worked, cost), failed)
        if limited:
            self._limited_batches += 1
            self._grow()

    def record_failure(self, cost: int) -> None:
        """Note that a batch of several items did not fit."""
        failed = min(cost, self.state.failed or cost)
        worked = self.state.worked if self.state.worked < failed else 0
        if self._doubts:
            self._batches_until_doubt = min(self._batches_until_doubt * 2, _LONGEST_WAIT)
        limit = max(1, min(failed - 1, max(worked, cost * 7 // 10)))
        self.state = CeilingState(limit, worked, failed)
        self._limited_batches = 0
        self._doubts = 0

    def restore(self, before: CeilingState) -> None:
        """Undo the effect of batches that failed because of one of their items.

        Costs that have worked since are kept.
        """
        if before.failed is None or self.state.worked < before.failed:
            before = before._replace(worked=max(before.worked, self.state.worked))
        self.state = before
        self._limited_batches = 0

    def _grow(self) -> None:
        limit, worked, failed = self.state
        if limit is None or (self.max_limit is not None and limit >= self.max_limit):
            return
        if failed is None:
            self._raise(limit * 2)
        elif failed - limit > max(1, failed // 20):
            if self._limited_batches >= self.patience:
                self._raise(min(limit * 5 // 4 + 1, (limit + failed + 1) // 2))
        elif self._limited_batches >= self._batches_until_doubt:
            self._limited_batches = 0
            self._doubts += 1
            if self._doubts > 1:
                self._batches_until_doubt = max(_FIRST_WAIT, self._batches_until_doubt // 2)
            self.state = CeilingState(limit, worked, failed * 11 // 10 + 1)

    def _raise(self, limit: int) -> None:
        self._limited_batches = 0
        if self.max_limit is not None:
            limit = min(limit, self.max_limit)
        self.state = self.state._replace(limit=limit)
