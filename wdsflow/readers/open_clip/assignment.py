"""Which shards OpenCLIP gives to which rank and worker, and in which order: its own arithmetic and seeds.

Source: open_clip_train.data.detshuffle2 with webdataset.filters._shuffle, then split_by_node and split_by_worker.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SHARD_SHUFFLE_SIZE = 2000
SHARD_SHUFFLE_INITIAL = 500


def shuffled(items: Sequence[T], size: int, initial: int, rng: random.Random) -> Iterator[T]:
    """Yield items through a shuffle buffer that fills two at a time, as webdataset's does.

    >>> sorted(shuffled(range(5), 3, 2, random.Random(0)))
    [0, 1, 2, 3, 4]
    """
    arriving = iter(items)
    waiting: list[T] = []
    enough = min(initial, size)
    for item in arriving:
        waiting.append(item)
        if len(waiting) < size:
            waiting.extend(islice(arriving, 1))
        if len(waiting) >= enough:
            yield _draw(waiting, rng)
    while waiting:
        yield _draw(waiting, rng)


def _draw(waiting: list[T], rng: random.Random) -> T:
    index = rng.randint(0, len(waiting) - 1)
    waiting[index], waiting[-1] = waiting[-1], waiting[index]
    return waiting.pop()


def assign(items: Sequence[T], world_size: int, workers: int) -> list[list[T]]:
    """Deal items out to ranks in turn, then each rank's to its workers; rank by rank, worker by worker.

    >>> assign("abcdef", 2, 2)
    [['a', 'e'], ['c'], ['b', 'f'], ['d']]
    """
    return [
        list(items[rank :: max(1, world_size)][worker :: max(1, workers)])
        for rank in range(max(1, world_size))
        for worker in range(max(1, workers))
    ]
