"""Which shards are worth keeping: those that are needed next.

This is Belady's MIN (1966), which no other policy beats: the victim is the shard whose next use is
furthest away, and a new shard that is needed later than all others is not kept at all. It needs the
future; here the order of the coming epochs is known.
"""

import sys
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The next use of a shard that no run needs again, as far as is known.
NEVER = inf
# That of a shard that is read by a run without a plan: after all planned uses.
UNPLANNED = sys.float_info.max


class Kept(NamedTuple):
    """A shard that is kept.

    ``next_use``: how many shards its run opens before it. ``last_use``: a time, which decides between
    shards that nobody needs.
    """

    name: str
    size: int
    next_use: float
    last_use: float = 0.0


def victims(kept: Iterable[Kept], missing: int, next_use: float) -> list[Kept] | None:
    """Return the shards to remove so that ``missing`` more bytes are free; None: the new shard is not worth it.

    Args:
        kept: the shards that may be removed.
        missing: bytes; 0 or less if there is room.
        next_use: of the new shard, after the use for which it is being opened.

    >>> kept = [Kept("a", 10, 3), Kept("b", 10, 8), Kept("c", 10, 5)]
    >>> [shard.name for shard in victims(kept, 15, 4)]
    ['b', 'c']
    >>> victims(kept, 25, 4) is None
    True
    """
    chosen: list[Kept] = []
    later = [shard for shard in kept if shard.next_use > next_use]
    later.sort(key=lambda shard: (-shard.next_use, shard.last_use))
    for shard in later:
        if missing <= 0:
            break
        chosen.append(shard)
        missing -= shard.size
    return chosen if missing <= 0 else None


def next_uses(uses: NDArray[np.uint64], done: NDArray[np.bool_]) -> dict[int, float]:
    """Return how many uses come before the next use of each shard.

    Args:
        uses: the shards that a run opens, in this order.
        done: which of these uses have been.

    >>> next_uses(np.array([7, 8, 9, 7, 8], np.uint64), np.array([True, False, False, False, False]))
    {7: 2.0, 8: 0.0, 9: 1.0}
    """
    shards, first = np.unique(uses[~done], return_index=True)
    return dict(zip(shards.tolist(), first.astype(float).tolist(), strict=True))
