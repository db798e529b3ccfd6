"""How many rows are mapped at once."""

from collections import deque

# The share of a worker's room that the estimate of a batch may fill; rows differ.
TARGET_FILL = 0.6
# Successful batches, after which they may grow beyond the limit of one that ran out of memory.
_CLEAN = 8


class BatchSizer:
    """Estimates how much memory a row takes.

    A batch is at most twice as long as the longest so far, and half as long as one that ran out of
    memory. The second limit fades, because another program may have held the memory for a while.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._row_sizes: deque[float] = deque(maxlen=16)
        self._longest = 0
        self._ceiling = float(most)
        self._successes = 0

    @property
    def row_bytes(self) -> float:
        """Bytes of a row, the maximum over the latest batches."""
        return max(self._row_sizes, default=0.0)

    def rows(self, room: int) -> int:
        """Return how many rows to map at once if a worker may grow by ``room`` bytes."""
        fits = room * TARGET_FILL / self.row_bytes if self.row_bytes else self.most
        return max(1, int(min(fits, 2 * self._longest or 1, self._ceiling, self.most)))

    def record_success(self, rows: int, grown: int) -> None:
        """Record a successful batch and the bytes that it took."""
        self._row_sizes.append(grown / rows)
        self._longest = max(self._longest, rows)
        self._successes += 1
        if self._successes >= _CLEAN:
            self._successes = 0
            self._ceiling = min(self._ceiling * 1.25 + 1, self.most)

    def record_out_of_memory(self, rows: int) -> None:
        """Record a batch that ran out of memory."""
        self._successes = 0
        self._ceiling = max(1.0, min(self._ceiling, rows / 2))
