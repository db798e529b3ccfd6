"""How even an epoch is over ranks and workers, if each reads whole shards."""

from collections.abc import Sequence

from wdsflow.readers.open_clip.assignment import assign
from wdsflow.text.words import how_many

from .reshard_options import Grid


def evenness(samples: Sequence[int], grid: Grid) -> str:
    """Return in words how many samples each worker gets of these shards, in their order.

    >>> evenness([100, 100, 100, 100], Grid(2, 2))
    'even: 4 shards for 2 ranks x 2 workers; 1 shard and 100 samples for each worker'
    >>> evenness([100, 100, 50], Grid(1, 2))
    'uneven: 3 shards for 1 rank x 2 workers; 100 to 150 samples for each worker, the largest share is 1.20x the mean'
    """
    who = f"{how_many(len(samples), 'shard')} for {how_many(grid.ranks, 'rank')} x {how_many(grid.workers, 'worker')}"
    shares = assign(samples, *grid)
    totals = [sum(share) for share in shares]
    idle = sum(not share for share in shares)
    if idle:
        return f"uneven: {who}; {how_many(idle, 'worker')} of {grid.readers:,} would get no shard"
    least, most = min(totals), max(totals)
    if most - least <= max(map(len, shares)) and most <= least * 1.01 + 1:
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        same = {len(share) for share in shares}
        number = f"{how_many(same.pop(), 'shard')} and " if len(same) == 1 else ""
        return f"even: {who}; {number}{each} sample{'s' * (most != 1)} for each worker"
    mean = sum(totals) / len(totals)
    return (
        f"uneven: {who}; {least:,} to {most:,} samples for each worker,"
        f" the largest share is {most / mean:.2f}x the mean"
    )
