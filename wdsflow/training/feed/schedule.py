"""The order of shards for each rank and lane, the sizes of batches, and the length of an epoch.

A lane corresponds to a worker of OpenCLIP's DataLoader: a stream of shards that fills its own batches. Batches come
from the lanes in turn.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsflow.readers.open_clip.versions import Buffers, epoch_length, epoch_order, resampled, worker_seed, worker_share
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.ranks import RankPlace


class Schedule(ABC):
    """The shards and batches of a rank. ``base_seed`` is drawn as a DataLoader draws it, when the first epoch begins.

    ``at_end``: what a lane does after all samples of a pass: "restart" and drop an incomplete batch, or "stop" with a
    smaller batch.
    """

    name: str
    shards: int
    lanes: int
    batch_size: int
    num_batches: int  # of this rank, an epoch
    num_samples: int  # of all ranks, an epoch
    at_end: Literal["restart", "stop"] = "restart"
    endless: bool = False  # passes never end
    base_seed: int = 0

    @abstractmethod
    def urls(self, epoch: int, lane: int) -> Iterator[Shard]:
        """Yield the shards that a lane reads in one pass."""


class InOrder(Schedule):
    """Each shard once, as given, dealt to the lanes in turn: how OpenCLIP reads shards for evaluation."""

    name = "in-order"
    at_end = "stop"

    def __init__(self, urls: Sequence[Shard], *, lanes: int, batch_size: int, samples: int) -> None:
        self._urls, self.lanes, self.batch_size, self.shards = list(urls), max(1, lanes), batch_size, len(urls)
        self.num_batches, self.num_samples = math.ceil(samples / batch_size), samples

    def urls(self, epoch: int, lane: int) -> Iterator[Shard]:
        """Yield the lane's shards; the same in each epoch."""
        yield from self._urls[lane :: self.lanes]


@dataclass(frozen=True)
class Workload:
    """The length of an epoch of training, in OpenCLIP's terms."""

    place: RankPlace
    workers: int  # of this rank; 0 is one lane
    batch_size: int  # of one rank
    samples: float  # of all ranks, an epoch
    seed: int
    floor: bool = False  # round the number of batches down
    buffers: Buffers = field(default_factory=Buffers)


class _Training(Schedule):
    """An epoch of OpenCLIP's training: enough full batches for all samples, rounded up twice."""

    name = "openclip"

    def __init__(self, urls: Sequence[Shard], work: Workload) -> None:
        self._urls, self._work, self.lanes, self.shards = list(urls), work, max(1, work.workers), len(urls)
        self.batch_size = work.batch_size
        length = epoch_length(work.samples, work.batch_size, work.place.world_size, work.workers, floor=work.floor)
        self.num_batches, self.num_samples = length.batches, length.samples

    def worker_seed(self, lane: int, epoch: int) -> int:
        """Return the seed that OpenCLIP would give its worker."""
        return worker_seed(self.base_seed, epoch, self._work.place.rank, lane, self._work.workers)


class OpenClip(_Training):
    """Shards shuffled again each epoch, dealt to ranks and to their workers: open_clip_train's default.

    Source: open_clip_train/data.py, get_wds_dataset; its order of shards for equal seed, epoch, ranks and workers.
    """

    def __init__(self, urls: Sequence[Shard], work: Workload) -> None:
        super().__init__(urls, work)
        ranks, workers = work.place.world_size, work.workers
        if self.shards < ranks * workers:
            raise AssertionError(
                f"number of shards must be >= total workers: {how_many(self.shards, 'shard')} for "
                f"{how_many(ranks, 'rank')} x {how_many(workers, 'worker')}"
            )

    def urls(self, epoch: int, lane: int) -> Iterator[Shard]:
        """Return the lane's shards; the same in each pass of an epoch."""
        work = self._work
        seed = work.seed + epoch if work.seed >= 0 else self.worker_seed(lane, epoch)
        mixed = epoch_order(self._urls, seed, work.buffers)
        return worker_share(mixed, work.place.rank, work.place.world_size, lane, self.lanes)


class ResampledSchedule(_Training):
    """An endless stream of shards drawn with replacement: ``--dataset-resampled``.

    Source: open_clip_train/data.py, ResampledShards2.
    """

    name = "resampled"
    endless = True

    def __init__(self, urls: Sequence[Shard], weights: Sequence[float] | None, work: Workload) -> None:
        super().__init__(urls, work)
        self._weights = weights

    def urls(self, epoch: int, lane: int) -> Iterator[Shard]:
        """Return shards without end."""
        return resampled(self._urls, self._weights, self.worker_seed(lane, epoch))
