"""Which shards OpenCLIP gives to which rank and worker, and in which order: its own arithmetic and seeds.

Source: open_clip_train/data.py: detshuffle2 (with webdataset.filters._shuffle), split_by_node, split_by_worker,
ResampledShards2, pytorch_worker_seed, and the rounding in get_wds_dataset.
"""

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

_RANK_SEED = 1000  # webdataset's seeds of ranks are this far apart


@dataclass(frozen=True)
class Buffers:
    """Sizes of the shuffle buffers, and how far each is filled before the first item leaves; OpenCLIP's numbers."""

    shards: int = 2000
    shards_initial: int = 500
    samples: int = 5000
    samples_initial: int = 1000

    @classmethod
    def from_environment(cls) -> "Buffers":
        """Return what OpenCLIP 4's environment variables say, its defaults if not set. Raises ValueError as it does."""
        names = ("SHARD_SHUFFLE_SIZE", "SHARD_SHUFFLE_INITIAL", "SAMPLE_SHUFFLE_SIZE", "SAMPLE_SHUFFLE_INITIAL")
        usual = (cls.shards, cls.shards_initial, cls.samples, cls.samples_initial)
        return cls(
            *(int(os.environ.get(f"OPENCLIP_WDS_{name}", each)) for name, each in zip(names, usual, strict=True))
        )


@dataclass(frozen=True, slots=True)
class EpochLength:
    """The length of an epoch after OpenCLIP has rounded it twice: to whole batches, and to whole workers."""

    asked: int | float  # samples
    worker_batches: int  # batches that each worker gives in one epoch
    batches: int  # of one rank in one epoch
    samples: int  # of all ranks in one epoch

    @property
    def inflation(self) -> float:
        """Return how many times longer the epoch is than asked for."""
        return self.samples / self.asked if self.asked else math.inf


def epoch_length(samples: float, batch_size: int, world_size: int, workers: int, *, floor: bool = False) -> EpochLength:
    """Round as get_wds_dataset does: up, unless ``floor`` is given.

    >>> epoch_length(1000, batch_size=256, world_size=1, workers=8)
    EpochLength(asked=1000, worker_batches=1, batches=8, samples=2048)
    """
    rounded = math.floor if floor else math.ceil
    whole = batch_size * world_size
    split = max(1, workers)
    worker_batches = rounded(rounded(samples / whole) / split)
    return EpochLength(samples, worker_batches, worker_batches * split, worker_batches * split * whole)


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


def epoch_order(items: Sequence[T], seed: int, buffers: Buffers) -> Iterator[T]:
    """Yield shards in the order of an epoch with this seed (``--seed`` and the epoch added up)."""
    return shuffled(items, buffers.shards, buffers.shards_initial, random.Random(seed))


def worker_share(items: Iterator[T], rank: int, world_size: int, worker: int, workers: int) -> Iterator[T]:
    """Yield what one worker reads of all shards: they are dealt out to ranks in turn, then to a rank's workers."""
    return islice(islice(items, rank, None, max(1, world_size)), worker, None, max(1, workers))


def assign(items: Sequence[T], world_size: int, workers: int) -> list[list[T]]:
    """Return the shards of all workers, rank by rank, worker by worker.

    >>> assign("abcdef", 2, 2)
    [['a', 'e'], ['c'], ['b', 'f'], ['d']]
    """
    return [
        list(worker_share(iter(items), rank, world_size, worker, workers))
        for rank in range(max(1, world_size))
        for worker in range(max(1, workers))
    ]


def resampled(items: Sequence[T], weights: Sequence[float] | None, seed: int) -> Iterator[T]:
    """Yield shards drawn with replacement, without end: ``--dataset-resampled``."""
    rng = random.Random(seed)
    while True:
        yield rng.choice(items) if weights is None else rng.choices(items, weights=weights, k=1)[0]


def worker_seed(base_seed: int, epoch: int, rank: int, worker: int, workers: int) -> int:
    """Return the seed of a worker. ``base_seed`` is what the DataLoader drew when the first epoch began."""
    if not workers:
        return rank * _RANK_SEED
    return base_seed + worker + epoch * workers
