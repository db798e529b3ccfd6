"""The downloads of an optimal cache, which knows the future, and of an LRU cache."""

from collections import OrderedDict
from collections.abc import Sequence
from math import inf


def fewest_downloads(uses: Sequence[str], room: int) -> list[bool]:
    """Return for each use whether an optimal cache downloads the shard.

    This is Belady's MIN with bypass. ``room``: how many shards fit; all have the same size.
    """
    following = [inf] * len(uses)
    later: dict[str, int] = {}
    for position in range(len(uses) - 1, -1, -1):
        following[position] = later.get(uses[position], inf)
        later[uses[position]] = position
    kept: dict[str, float] = {}
    downloaded = []
    for shard, next_use in zip(uses, following, strict=True):
        downloaded.append(shard not in kept)
        kept[shard] = next_use
        if len(kept) > room:
            del kept[max(kept, key=kept.__getitem__)]
    return downloaded


def downloads_by_recency(uses: Sequence[str], room: int) -> list[bool]:
    """Return the same of a cache that evicts what was used least recently."""
    kept: OrderedDict[str, None] = OrderedDict()
    downloaded = []
    for shard in uses:
        downloaded.append(shard not in kept)
        kept[shard] = None
        kept.move_to_end(shard)
        if len(kept) > room:
            kept.popitem(last=False)
    return downloaded
