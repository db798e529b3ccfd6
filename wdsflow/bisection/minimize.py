"""The smallest part of a list with which something still fails."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def minimize(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of ``items``, in their order, that fails, while it does not if any one of its items is left out.

    One item at fault among n takes about 2 log2(n) calls; several that fail only together take more, n² at worst.

    Args:
        items: fail all together; this is not tried again.
        fails: is asked for parts of them, never for none.

    Source: the algorithm ddmin of Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.

    >>> minimize(range(1000), lambda part: 17 in part and 800 in part)
    [17, 800]
    """
    current, parts = list(items), 2
    while len(current) > 1:
        smaller = next((each for each in _smaller(current, parts) if fails(each)), None)
        if smaller is not None:
            parts = 2 if len(smaller) <= -(-len(current) // parts) else max(parts - 1, 2)
            current = smaller
        elif parts >= len(current):
            break
        else:
            parts = min(2 * parts, len(current))
    return current


def _smaller(items: list[T], parts: int) -> Iterator[list[T]]:
    """Yield each of so many equal parts, then all items but those of one part."""
    borders = [len(items) * number // parts for number in range(parts + 1)]
    between = list(pairwise(borders))
    yield from (items[start:end] for start, end in between)
    if parts > 2:  # with two, what is left is the other part
        yield from (items[:start] + items[end:] for start, end in between)
