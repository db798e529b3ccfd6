"""Merging of streams in proportion to their rates."""

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

_QUANTA = 1 << 30


def shares_of(rates: Counts, first: int) -> Counts:
    """Return how many of the ``first`` items of a merged order come from each stream.

    Stream i has ``rates[i]`` items in a unit of time: its item j (from 0) comes at (j + 1/2) / rates[i], equal times in
    the order of streams. Whole numbers only: the same on every machine. Times closer than 2**-30 count as equal.

    Of n streams, one of share w is never more than 1/2 + w * (n - 2) / 2 items away from its share. For at time t each
    stream is at most 1/2 from t * rate: by e, say. All have then given t * sum(rates) + sum(e) items, of which w is
    w * sum(e) more than t * rate: the stream is e - w * sum(e) = (1 - w) * e - w * (the others' e) away from its share.
    """
    total = int(rates.sum())
    # By then at least ``first`` minus one per stream have come, or at most ``first`` plus one per stream.
    low, high = (max(0, (first + some) * _QUANTA // total + 1) for some in (-len(rates) - 1, len(rates)))
    while high - low > 1:
        middle = (low + high) // 2
        if int(_come(rates, middle).sum()) <= first:
            low = middle
        else:
            high = middle
    shares = _come(rates, low)
    # Of the items that come at the next time, the first streams' ones are before the others'.
    simultaneous = _come(rates, low + 1) - shares
    rest = first - int(shares.sum())
    earlier_streams = np.cumsum(simultaneous) - simultaneous
    result: Counts = shares + np.clip(rest - earlier_streams, 0, simultaneous)
    return result


def _come(rates: Counts, time: int) -> Counts:
    """Return how many items of each stream have come at a time."""
    # Apart, because the product of all would exceed 64 bits.
    whole, part = divmod(time, _QUANTA)
    counts: Counts = rates * whole + (2 * rates * part + _QUANTA) // (2 * _QUANTA)
    return counts
