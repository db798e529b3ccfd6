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

# Bytes of shards that are needed again, for each byte of a new one: more of them would be
# downloaded again than are saved.
_MOST_LOST = 1.5
# The next use of a shard that no run needs again, as far as is known.
NEVER = inf
# That of a shard that is read by a run without a plan: after all planned uses.
UNPLANNED = sys.float_info.max


class CachedShard(NamedTuple):
    """A shard that is kept, or may be.

    ``next_use``: how many shards its run opens before it. ``last_use``: a time, which decides
    between shards that nobody needs.
    """

    name: str
    size: int
    next_use: float
    last_use: float = 0.0


def victims(
    kept: Iterable[CachedShard], new: CachedShard, missing: int
) -> list[CachedShard] | None:
    """Return the shards to remove so that ``missing`` more bytes are free.

    None if the new shard is not worth it.

    MIN is for shards of equal size. Of shards that differ a little, the one that is needed last may
    be too small by a few bytes: then one alone that is large enough goes, rather than two.

    >>> kept = [CachedShard("a", 10, 3), CachedShard("b", 10, 8), CachedShard("c", 12, 5)]
    >>> [shard.name for shard in victims(kept, CachedShard("new", 10, 4), missing=10)]
    ['b']
    >>> [shard.name for shard in victims(kept, CachedShard("new", 11, 4), missing=11)]
    ['c']
    >>> victims(kept, CachedShard("new", 10, 9), missing=10) is None
    True
    """
    later = [shard for shard in kept if shard.next_use > new.next_use]
    later.sort(key=_eviction_order)
    chosen: list[CachedShard] = []
    for shard in later:
        if missing <= 0 or shard.next_use < NEVER:
            break
        chosen.append(shard)
        missing -= shard.size
    if missing <= 0:
        return chosen
    needed = later[len(chosen) :]
    alone = next((shard for shard in needed if shard.size >= missing), None)
    if alone is not None and alone.size <= _MOST_LOST * new.size:
        return [*chosen, alone]
    lost = 0
    for shard in needed:
        if lost >= missing:
            break
        chosen.append(shard)
        lost += shard.size
    return chosen if missing <= lost <= _MOST_LOST * new.size else None


def victims_beyond_limit(kept: Iterable[CachedShard], excess: int) -> list[CachedShard]:
    """Return the shards to remove so that at least ``excess`` bytes are free.

    These are the shards that are needed last.

    >>> kept = [CachedShard("a", 10, 3), CachedShard("b", 10, 8), CachedShard("c", 10, 5)]
    >>> [shard.name for shard in victims_beyond_limit(kept, 11)]
    ['b', 'c']
    """
    chosen: list[CachedShard] = []
    for shard in sorted(kept, key=_eviction_order):
        if excess <= 0:
            break
        chosen.append(shard)
        excess -= shard.size
    return chosen


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


def _eviction_order(shard: CachedShard) -> tuple[float, float]:
    return -shard.next_use, shard.last_use
