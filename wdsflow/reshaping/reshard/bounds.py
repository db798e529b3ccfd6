"""Which rows of a part become which output."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.text.words import how_many

from .reshard_options import ReshardOptions
from .row_file import END, KEY, PIECE, START, RowFile, Rows, fields_of

# The rows of an output: from the first up to the second.
Bounds = tuple[int, int]

_END_MARK = 2 * BLOCK
# By how much the headers of a member can grow if its sample gets another key.
_HEADER_GROWTH = 3 * BLOCK
_MOST_SHARDS = 10_000_000


def bounds_of(
    rows: RowFile, options: ReshardOptions, usual_count: float, part: str = ""
) -> list[Bounds]:
    """Return the bounds of the outputs of a part, in order; every row is in one of them.

    Args:
        rows: the samples of the part.
        options: the sizes of shards.
        usual_count: the number of outputs if the options do not decide it.
        part: the name of the part, for the error.

    Raises ValueError if there are fewer samples than shards, or too many shards.
    """
    if not rows.count:
        return []
    if options.size is not None:
        return list(_bounds_by_bytes(rows, options.size))
    count = _count_of_outputs(rows.count, options, usual_count)
    if count > rows.count:
        flag = (
            f"--shards {options.shards}"
            if options.shards
            else f"--divisible-by {options.divisible_by}"
        )
        samples = how_many(rows.count, "sample") + (f" of {part}" if part else "")
        raise ValueError(f"{flag}: {how_many(count, 'shard')} cannot be made of {samples}")
    if count > _MOST_SHARDS:
        raise ValueError(f"these would be {count:,} shards: at most {_MOST_SHARDS:,}")
    return list(pairwise(number * rows.count // count for number in range(count + 1)))


def _count_of_outputs(samples: int, options: ReshardOptions, usual_count: float) -> int:
    if options.shards is not None:
        return options.shards
    count = max(1, round(usual_count))
    if options.samples is not None:
        count = _divided(samples, options.samples)
    if options.divisible_by is None:
        return min(count, samples)
    readers = options.divisible_by.readers
    return _divided(count, readers) * readers


def _divided(number: int, divisor: int) -> int:
    """Return a quotient, rounded up."""
    return -(-number // divisor)


def _bounds_by_bytes(rows: RowFile, most: int) -> Iterator[Bounds]:
    """Fill outputs up to ``most`` bytes; a larger sample is alone in its output."""
    budget = np.uint64(max(0, most - _END_MARK))
    window = rows.read(0, PIECE)
    window_start = 0
    start = 0
    previous_key = None
    while start < rows.count:
        candidates = window[start - window_start :]
        sizes = candidates[:, END] - candidates[:, START]
        count = _count_within(sizes, budget)
        window_end = window_start + len(window)
        if count >= len(candidates) and window_end < rows.count:
            # More rows may fit than the window holds: read a window that begins here and is larger.
            window_start = start
            window = rows.read(start, start + 2 * max(len(candidates), PIECE))
            continue
        grown_sizes = sizes[:count] + _growth(candidates[:count], previous_key)
        count = max(1, _count_within(grown_sizes, budget))
        previous_key = int(candidates[count - 1, KEY])
        yield start, start + count
        start += count


def _count_within(sizes: NDArray[np.uint64], budget: np.uint64) -> int:
    """Return how many of the first sizes have a sum of at most ``budget``."""
    sums = np.cumsum(sizes, dtype=np.uint64)
    return int(np.searchsorted(sums, budget, side="right"))


def _growth(rows: Rows, previous_key: int | None) -> NDArray[np.uint64]:
    """Return by how many bytes each sample of an output may grow.

    Only samples with a repeated key grow, because they get another key.

    ``previous_key``: the last key of the output before, None for the first output.
    """
    is_repeated = np.ones(len(rows), bool)
    _, first_of_key = np.unique(rows[:, KEY], return_index=True)
    is_repeated[first_of_key] = False
    if len(rows) and int(rows[0, KEY]) == previous_key:
        is_repeated[0] = True
    growth: NDArray[np.uint64] = is_repeated * fields_of(rows) * np.uint64(_HEADER_GROWTH)
    return growth
