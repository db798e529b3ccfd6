"""Small summaries of many values: which are frequent, and which sets overlap."""

import heapq
import zlib
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Frequent(Generic[T]):
    """Values that make up more than 1/size of a stream, with lower bounds of their counts.

    Misra and Gries, "Finding repeated elements", Science of Computer Programming 2 (1982).

    >>> frequent = Frequent(2)
    >>> for value in "aabacaa":
    ...     frequent.add(value)
    >>> frequent.counts()
    {'a': 4}
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: dict[T, int] = {}

    def add(self, value: T) -> None:
        """Count one value."""
        counts = self._counts
        if value in counts:
            counts[value] += 1
        elif len(counts) < self._size:
            counts[value] = 1
        else:
            for other in list(counts):
                counts[other] -= 1
                if not counts[other]:
                    del counts[other]

    def counts(self) -> dict[T, int]:
        """Return values counted more than once, the most frequent first."""
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
