"""Merging of streams in proportion to their rates."""

from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

# Parts of a unit of time.
_QUANTA = 1 << 30


def shares_of(rates: Counts, first: int) -> Counts:
    """Return how many of the ``first`` items of a merged order come from each stream.

    Stream i has ``rates[i]`` items in a unit of time: its item j (from 0) comes at (j + 1/2) /
    rates[i], equal times in the order of streams. Whole numbers only: the same on every machine.
    Times closer than 2**-30 count as equal.

    Of n streams, one of share w is never more than 1/2 + w * (n - 2) / 2 items away from its share.
    For at time t each stream is at most 1/2 from t * rate: by e, say. All have then given t *
    sum(rates) + sum(e) items, of which w is w * sum(e) more than t * rate: the stream is e - w *
    sum(e) = (1 - w) * e - w * (the others' e) away from its share.
    """
    # Python's own numbers: the products exceed 64 bits.
    streams: list[int] = rates.tolist()
    # Each stream is at most 1/2 ahead of its rate then, so
    # that no more than ``first`` items have come.
    time = max(0, (2 * first - len(streams)) * _QUANTA // (2 * sum(streams)))
    shares = [(2 * rate * time + _QUANTA) // (2 * _QUANTA) for rate in streams]
    # The others one by one: about one for each stream.
    upcoming = [(_time_of(shares[number], rate), number) for number, rate in enumerate(streams)]
    heapify(upcoming)
    for _ in range(first - sum(shares)):
        _, number = upcoming[0]
        shares[number] += 1
        heapreplace(upcoming, (_time_of(shares[number], streams[number]), number))
    return np.array(shares, np.int64)


def _time_of(item: int, rate: int) -> int:
    """Return the time at which an item of a stream comes, rounded up to whole quanta."""
    return -(-_QUANTA * (2 * item + 1) // (2 * rate))
