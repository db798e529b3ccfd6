"""What the best of all caches would download, computed with the whole future, and what the usual one does."""

from collections import OrderedDict
from collections.abc import Sequence
from math import inf


def fewest_downloads(uses: Sequence[str], room: int) -> list[bool]:
    """Return which uses download their shard, with room for so many of equal size: Belady's MIN, with bypass."""
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
