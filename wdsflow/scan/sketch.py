"""Small summaries of many values: which are frequent, and which sets overlap."""

import heapq
import zlib
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
_BLOCK = 4096


class Frequent(Generic[T]):
    """Values that make up more than 1/(size + 1) of a stream, with lower bounds of their counts.

    Misra and Gries, "Finding repeated elements", Science of Computer Programming 2 (1982), merged in blocks as in
    Agarwal and others, "Mergeable summaries", ACM TODS 38 (2013).

    >>> frequent = Frequent(2)
    >>> for value in "aabacaa":
    ...     frequent.add(value)
    >>> frequent.counts()
    {'a': 4}
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: dict[T, int] = {}
        self._waiting: list[T] = []  # counted together: that costs a fifth of one by one

    def add(self, value: T) -> None:
        """Count one value."""
        self._waiting.append(value)
        if len(self._waiting) >= _BLOCK:
            self._merge()

    def _merge(self) -> None:
        totals = Counter(self._waiting)
        totals.update(self._counts)
        self._waiting.clear()
        cut = sorted(totals.values(), reverse=True)[self._size] if len(totals) > self._size else 0
        self._counts = {value: count - cut for value, count in totals.items() if count > cut}

    def counts(self) -> dict[T, int]:
        """Return values counted more than once, the most frequent first."""
        self._merge()
        items = sorted(self._counts.items(), key=lambda item: -item[1])
        return {value: count for value, count in items if count > 1}


class Smallest:
    """The smallest hashes of a stream of byte strings: two streams that share values share some of these."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[int] = []  # negated: the root is the largest of the smallest
        self._known: set[int] = set()

    def add(self, data: bytes) -> int:
        """Take one value; return its 32-bit hash."""
        value = zlib.crc32(data)
        heap = self._heap
        if len(heap) < self._size:
            if value not in self._known:
                self._known.add(value)
                heapq.heappush(heap, -value)
        elif value < -heap[0] and value not in self._known:
            self._known.add(value)
            self._known.discard(-heapq.heappushpop(heap, -value))
        return value

    def values(self) -> tuple[int, ...]:
        """Return the hashes, the smallest first."""
        return tuple(sorted(-value for value in self._heap))


def smallest_hashes(names: Iterable[str], size: int) -> tuple[int, ...]:
    """Return the ``size`` smallest 32-bit hashes of names, which may hold surrogates."""
    hashes = (zlib.crc32(name.encode("utf-8", "surrogateescape")) for name in names)
    return tuple(heapq.nsmallest(size, hashes))
