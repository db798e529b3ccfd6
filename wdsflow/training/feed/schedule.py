"""Who reads what, in which order: lanes of shards, batch sizes, the length of an epoch.

A lane is what OpenCLIP calls a DataLoader's worker: a stream of shards that fills batches of its own. Batches come
from the lanes in turn.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wdsflow.readers.open_clip.assignment import (
    Buffers,
    epoch_length,
    epoch_order,
    resampled,
    worker_seed,
    worker_share,
)
from wdsflow.text.words import how_many
from wdsflow.training.rank_place import RankPlace


class ShardPiece(NamedTuple):
    """Samples of a shard that have an image and a caption, from number ``start`` on; all where ``stop`` is None."""

    url: str
    start: int = 0
    stop: int | None = None


class Schedule(ABC):
    """What a rank reads. ``base_seed`` is drawn as a DataLoader draws it, when the first epoch begins.

    ``at_end``: what a lane does that has read all of a pass: "restart" and drop what fills no batch, "fill" the batch
    with samples of the next pass, "stop" with a smaller batch.
    """

    name: str
    shards: int
    lanes: int
    num_batches: int  # of this rank, an epoch
    num_samples: int  # of all ranks, an epoch
    at_end: Literal["restart", "fill", "stop"] = "restart"
    endless: bool = False  # a pass never ends
    base_seed: int = 0

    @abstractmethod
    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield what a lane reads in one pass."""

    @abstractmethod
    def size(self, batch: int) -> int:
        """Return the number of samples of a batch, counted from 0 in its epoch."""


class InOrder(Schedule):
    """Each shard once, as given, dealt out to the lanes in turn: how OpenCLIP reads shards for evaluation."""

    name = "in-order"
    at_end = "stop"

    def __init__(self, urls: Sequence[str], *, lanes: int, batch_size: int, samples: int) -> None:
        self._urls, self.lanes, self._batch_size = list(urls), max(1, lanes), batch_size
        self.shards = len(self._urls)
        self.num_batches, self.num_samples = math.ceil(samples / batch_size), samples

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield the lane's shards; the same in each epoch."""
        yield from map(ShardPiece, self._urls[lane :: self.lanes])

    def size(self, batch: int) -> int:
        """Return the batch size."""
        return self._batch_size


@dataclass(frozen=True)
class Workload:
    """What an epoch of training is to be, in OpenCLIP's words."""

    place: RankPlace
    workers: int  # of this rank; 0 is one lane
    batch_size: int  # of one rank
    samples: float  # of all ranks, an epoch
    seed: int
    floor: bool = False  # round the number of batches down
    buffers: Buffers = field(default_factory=Buffers)


class _Training(Schedule):
    """The epoch of OpenCLIP's training: as many full batches as the number of samples asks for, rounded up twice."""

    name = "openclip"

    def __init__(self, urls: Sequence[str], work: Workload) -> None:
        self._urls, self._work, self.lanes = list(urls), work, max(1, work.workers)
        self.shards = len(self._urls)
        length = epoch_length(work.samples, work.batch_size, work.place.world_size, work.workers, floor=work.floor)
        self.num_batches, self.num_samples = length.batches, length.samples

    def size(self, batch: int) -> int:
        """Return the batch size."""
        return self._work.batch_size

    def worker_seed(self, lane: int, epoch: int) -> int:
        """Return the seed that OpenCLIP's worker would have."""
        return worker_seed(self.base_seed, epoch, self._work.place.rank, lane, self._work.workers)


class OpenClip(_Training):
    """Shards shuffled again each epoch, dealt out to ranks and to their workers: open_clip_train's default.

    Source: open_clip_train/data.py, get_wds_dataset; its order of shards for equal seed, epoch, ranks and workers.
    """

    def __init__(self, urls: Sequence[str], work: Workload) -> None:
        super().__init__(urls, work)
        ranks, workers = work.place.world_size, work.workers
        if len(self._urls) < ranks * workers:
            raise AssertionError(
                f"number of shards must be >= total workers: {how_many(len(self._urls), 'shard')} for "
                f"{how_many(ranks, 'rank')} x {how_many(workers, 'worker')}"
            )

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield the lane's shards; the same in each pass of an epoch."""
        work = self._work
        seed = work.seed + epoch if work.seed >= 0 else self.worker_seed(lane, epoch)
        mixed = epoch_order(self._urls, seed, work.buffers)
        yield from map(ShardPiece, worker_share(mixed, work.place.rank, work.place.world_size, lane, self.lanes))


class ResampledSchedule(_Training):
    """Shards drawn with replacement, without end: ``--dataset-resampled``.

    Source: open_clip_train/data.py, ResampledShards2.
    """

    name = "resampled"
    endless = True

    def __init__(self, urls: Sequence[str], weights: Sequence[float] | None, work: Workload) -> None:
        super().__init__(urls, work)
        self._weights = weights

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield shards forever."""
        yield from map(ShardPiece, resampled(self._urls, self._weights, self.worker_seed(lane, epoch)))
