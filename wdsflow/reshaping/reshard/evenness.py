"""How evenly shards divide among the loader workers of a training run."""

from collections.abc import Sequence

from wdsflow.text.words import how_many

from .reshard_options import Grid


def evenness(samples: Sequence[int], grid: Grid) -> str:
    """Return a text on how many samples each worker gets.

    Args:
        samples: the number of samples of each shard, in order.
        grid: ranks and workers.

    >>> evenness([100, 100, 100, 100], Grid(2, 2))
    'even: 4 shards for 2 ranks x 2 workers; 1 shard and 100 samples for each worker'
    >>> evenness([100, 100, 50], Grid(1, 2))
    'uneven: 3 shards for 1 rank x 2 workers; 100 to 150 samples for each worker, the largest share
    is 1.20x the mean'
    """
    # Loads all readers, which takes longer than a small run.
    from wdsflow.readers.open_clip.versions import split_among_workers

    shards = how_many(len(samples), "shard")
    subject = f"{shards} for {how_many(grid.ranks, 'rank')} x {how_many(grid.workers, 'worker')}"
    shares = split_among_workers(samples, *grid)
    idle = sum(not share for share in shares)
    if idle:
        return (
            f"uneven: {subject}; {how_many(idle, 'worker')} of {grid.readers:,} would get no shard"
        )
    totals = [sum(share) for share in shares]
    least, most = min(totals), max(totals)
    most_shards = max(len(share) for share in shares)
    # Equal shards may differ by one sample each.
    if most - least <= most_shards and most <= least * 1.01 + 1:
        unit = "sample" if most == 1 else "samples"
        per_worker = f"{span(least, most)} {unit} for each worker"
        shard_counts = {len(share) for share in shares}
        if len(shard_counts) == 1:
            per_worker = f"{how_many(shard_counts.pop(), 'shard')} and {per_worker}"
        return f"even: {subject}; {per_worker}"
    mean = sum(totals) / len(totals)
    return (
        f"uneven: {subject}; {least:,} to {most:,} samples for each worker,"
        f" the largest share is {most / mean:.2f}x the mean"
    )


def span(least: int, most: int) -> str:
    """Return a number, or two with "to" between them.

    >>> span(3, 3), span(3, 4_000)
    ('3', '3 to 4,000')
    """
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
