"""Rows of the same key: how many there are, and which comes first."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import CELL
from .spill import Rows, Spill

PARTS = 256
_COST = 256  # bytes a row while groups are formed
GROUP: np.dtype[Any] = np.dtype([*CELL.descr, ("count", "<u8")])

Chunks = Callable[[], Iterable[Rows]]


def part_of(rows: Rows) -> NDArray[Any]:
    """Return the part of each row by its key. Keys need not be spread evenly."""
    mixed = (rows["high"] ^ rows["low"]) * np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing
    parts: NDArray[np.int64] = (mixed >> np.uint64(56)).astype(np.int64)
    return parts


def rows_at_once(memory: int) -> int:
    """Return how many rows may be grouped at a time within ``memory`` bytes."""
    return max(1 << 8, memory // _COST)


def grouped(spill: Spill, memory: int) -> Iterator[tuple[Rows, Rows, NDArray[Any]]]:
    """Yield rows of CELL, all groups of their part (GROUP, by key), and which of these each row belongs to.

    Each row comes once; the rows of a group may be spread over several answers, of one part. A part needs memory for
    its distinct keys, however many rows have the same.
    """
    most = rows_at_once(memory)
    for part in range(spill.parts):
        groups = np.zeros(0, GROUP)
        for rows in spill.part(part, most):
            groups = merged(groups, rows)
        for rows in spill.part(part, most):
            yield rows, groups, group_of(rows, groups)
        spill.forget(part)


def merged(groups: Rows, rows: Rows) -> Rows:
    """Return groups, and rows added to them: the first place of each key, and the number of rows."""
    both = np.zeros(len(groups) + len(rows), GROUP)
    both[: len(groups)] = groups
    for name in CELL.names or ():
        both[name][len(groups) :] = rows[name]
    both["count"][len(groups) :] = 1
    both = both[np.lexsort((both["item"], both["place"], both["low"], both["high"]))]
    if not len(both):
        return both
    new = (both["high"][1:] != both["high"][:-1]) | (both["low"][1:] != both["low"][:-1])
    starts = np.flatnonzero(np.concatenate(([True], new)))
    result = both[starts]
    result["count"] = np.add.reduceat(both["count"], starts)
    return result


def group_of(rows: Rows, groups: Rows) -> NDArray[Any]:
    """Return the number of each row's group."""
    found = np.searchsorted(groups["high"], rows["high"])
    while len(wrong := np.flatnonzero(groups["low"][found] != rows["low"])):
        found[wrong] += 1  # another key of the same first half
    return found


def is_first(rows: Rows, groups: Rows, group: NDArray[Any]) -> NDArray[Any]:
    """Return whether each row is the first of its group."""
    same: NDArray[np.bool_] = (groups["place"][group] == rows["place"]) & (groups["item"][group] == rows["item"])
    return same
