"""Which items go together: a batch costs its longest item times its length, as the others are padded to it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Stop = Literal["ceiling", "most", "waste", "end"]


class BatchCut(NamedTuple):
    """How many items a batch takes, and what keeps it from taking more."""

    items: int
    stop: Stop


class Padding(NamedTuple):
    """The cells that batches compute: pixels, tokens."""

    padded: int
    real: int

    @property
    def ratio(self) -> float:
        """Padded cells for each real one; 1 where there are none."""
        return self.padded / self.real if self.real else 1.0


def order(costs: Sequence[int]) -> list[int]:
    """Return positions by falling cost, equal ones in input order.

    The largest first: what does not fit is known at once, and later batches fit in the memory that it took.
    """
    return sorted(range(len(costs)), key=lambda index: (-costs[index], index))


def cut(costs: Sequence[int], ceiling: int | None, most: int, waste: float | None) -> BatchCut:
    """Return how many of the first items make the next batch; ``costs`` are falling, at least 1, and not empty.

    It takes items while they and their padding cost at most ``ceiling``, they are at most ``most``, and all cells are at
    most ``waste`` times the real ones. One item is always taken.
    """
    real = 0
    for index, cost in enumerate(costs):
        padded, real = (index + 1) * costs[0], real + cost
        if index == 0:
            continue
        if index >= most:
            return BatchCut(index, "most")
        if ceiling is not None and padded > ceiling:
            return BatchCut(index, "ceiling")
        if waste is not None and padded > waste * real:
            return BatchCut(index, "waste")
    return BatchCut(len(costs), "end")


def batches(costs: Sequence[int], ceiling: int | None, most: int, waste: float | None) -> list[list[int]]:
    """Return the positions of each batch for a ceiling that does not change."""
    rest, made = order(costs), []
    while rest:
        taken = cut([costs[index] for index in rest[: most + 1]], ceiling, most, waste).items
        made.append(rest[:taken])
        rest = rest[taken:]
    return made


def halve(costs: Sequence[int]) -> int:
    """Return where to split a batch of at least two items, of falling costs, so that both parts cost about the same."""
    size = len(costs)
    return min(range(1, size), key=lambda at: max(at * costs[0], (size - at) * costs[at]))
