"""Which shards OpenCLIP's loader gives to which rank and worker: a pure function of seed and epoch.

The shard list is shuffled with one generator seeded by ``seed + epoch``, alike in every process; then each rank
takes every ``world_size``-th shard, and of those each worker every ``workers``-th (open_clip_train/data.py:
detshuffle2, then webdataset's split_by_node and split_by_worker). 3.3.0 and 4.x do the same.
"""

import random

SHARD_SHUFFLE_SIZE, SHARD_SHUFFLE_INITIAL = 2000, 500


def shuffled(count: int, seed: int, bufsize: int = SHARD_SHUFFLE_SIZE, initial: int = SHARD_SHUFFLE_INITIAL) -> list[int]:
    """Return 0 ... count - 1 in the order in which webdataset's buffered shuffle gives them out.

    The buffer takes two items a round until it holds ``bufsize``, gives out one a round from ``initial`` items
    on, and is emptied in random order at the end.
    """
    rng = random.Random(seed)
    threshold = min(initial, bufsize)
    buffer: list[int] = []
    given: list[int] = []

    def give() -> None:
        place = rng.randrange(len(buffer))
        given.append(buffer[place])
        buffer[place] = buffer[-1]
        buffer.pop()

    taken = 0
    while taken < count:
        room = 2 if len(buffer) + 1 < bufsize else 1
        fresh = range(taken, min(taken + room, count))
        buffer.extend(fresh)
        taken += len(fresh)
        if len(buffer) >= threshold:
            give()
    while buffer:
        give()
    return given


def assignment(
    n_shards: int,
    seed: int,
    epoch: int,
    world_size: int,
    workers: int,
    bufsize: int = SHARD_SHUFFLE_SIZE,
    initial: int = SHARD_SHUFFLE_INITIAL,
) -> list[list[int]]:
    """Return the indices of each worker's shards in the order in which it reads them, without resampling.

    Entry ``rank * max(1, workers) + worker``. With a negative ``seed`` every worker shuffles by a seed of its
    own that nobody can foresee: then the shards are dealt out unshuffled, and only their number is right.

    >>> assignment(6, seed=0, epoch=0, world_size=1, workers=2)
    [[3, 0, 2], [5, 1, 4]]
    """
    order = list(range(n_shards)) if seed < 0 else shuffled(n_shards, seed + epoch, bufsize, initial)
    split = max(1, workers)
    return [order[rank::world_size][worker::split] for rank in range(world_size) for worker in range(split)]
