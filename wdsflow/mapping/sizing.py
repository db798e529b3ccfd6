"""How many rows go into a batch, and how many workers fit: from what batches took before."""

from collections import deque

COMFORT = 0.6  # of the room that a worker has; rows differ
_CLEAN = 8  # batches without trouble, after which they may grow beyond what was too much
_EACH = 2  # rows that each of several workers has room for, at least


class Sizer:
    """Learns what a row takes.

    A batch is at most twice as long as the longest so far, and half as long as one that was too much; that is forgotten
    slowly, as the memory may have been somebody else's for a while.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._needs: deque[float] = deque(maxlen=16)
        self._longest = 0
        self._ceiling = float(most)
        self._clean = 0

    @property
    def need(self) -> float:
        """The bytes that a row takes, by the greediest of the latest batches."""
        return max(self._needs, default=0.0)

    def rows(self, room: int) -> int:
        """Return how many rows to map at once where a worker may grow by ``room`` bytes."""
        fits = room * COMFORT / self.need if self.need else self.most
        return max(1, int(min(fits, 2 * self._longest or 1, self._ceiling, self.most)))

    def learn(self, rows: int, grown: int) -> None:
        """Take in what a batch took that went well."""
        self._needs.append(grown / rows)
        self._longest = max(self._longest, rows)
        self._clean += 1
        if self._clean >= _CLEAN:
            self._clean, self._ceiling = 0, min(self._ceiling * 1.25 + 1, self.most)

    def too_much(self, rows: int) -> None:
        """Take in that a batch was too much."""
        self._clean, self._ceiling = 0, max(1.0, min(self._ceiling, rows / 2))


def fitting(memory: int, idle: int, need: float, most: int) -> int:
    """Return how many workers fit into ``memory`` bytes, each with room for two rows; at least 1, at most ``most``.

    ``idle``: bytes of a worker next to its rows.

    >>> fitting(2 << 30, 200 << 20, 60 << 20, 16)
    5
    """
    return max(1, min(most, int(memory // (idle + _EACH * need / COMFORT + 1))))
