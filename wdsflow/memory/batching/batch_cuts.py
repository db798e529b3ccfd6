"""How items are cut into batches: by falling cost, within a ceiling, and with little padding."""

from collections.abc import Sequence
from typing import Literal

# What keeps a batch from being larger.
BatchEnd = Literal["ceiling", "most", "waste", "end"]


def by_falling_cost(costs: Sequence[int]) -> list[int]:
    """Return positions by falling cost, equal ones in input order.

    The largest first: failures come at once, and later batches fit in the same memory.
    """
    return sorted(range(len(costs)), key=lambda index: (-costs[index], index))


def next_batch(
    costs: Sequence[int], ceiling: int | None, most: int, waste: float | None
) -> tuple[int, BatchEnd]:
    """Return how many of the first items make the next batch, and what ends it.

    The end is "ceiling", "most", "waste", or "end" if no items remain.

    ``costs`` are falling, at least 1, and not empty. One item is always taken; more, while they and
    their padding cost at most ``ceiling``, they are at most ``most``, and all cells are at most
    ``waste`` times the real ones.
    """
    real = 0
    for index, cost in enumerate(costs):
        padded = (index + 1) * costs[0]
        real += cost
        if index == 0:
            continue
        if index >= most:
            return index, "most"
        if ceiling is not None and padded > ceiling:
            return index, "ceiling"
        if waste is not None and padded > waste * real:
            return index, "waste"
    return len(costs), "end"


def batches(
    costs: Sequence[int], ceiling: int | None, most: int, waste: float | None
) -> list[list[int]]:
    """Return the positions of each batch for a ceiling that does not change."""
    remaining = by_falling_cost(costs)
    cuts: list[list[int]] = []
    while remaining:
        # One more than fits shows what ends the batch.
        next_costs = [costs[index] for index in remaining[: most + 1]]
        size, _ = next_batch(next_costs, ceiling, most, waste)
        cuts.append(remaining[:size])
        remaining = remaining[size:]
    return cuts


def split_point(costs: Sequence[int]) -> int:
    """Return where to split a batch so that both parts cost about the same.

    The batch has at least two items, of falling costs.
    """
    size = len(costs)

    def larger_part(border: int) -> int:
        return max(border * costs[0], (size - border) * costs[border])

    return min(range(1, size), key=larger_part)
