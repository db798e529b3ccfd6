"""OpenCLIP's orders: a stream for each worker of its DataLoader.

A worker reads the same shards as in OpenCLIP and fills its own batches.

Batches come from the streams in turn.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from wdsflow.readers.open_clip.versions import (
    Buffers,
    epoch_length,
    epoch_order,
    resampled,
    worker_seed,
    worker_share,
)
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.ranks import JobRank
from wdsflow.training.sample_tasks import StreamKey

from .order import EpochPosition, Order, OrderStep, StreamPosition, StreamRun


@dataclass(frozen=True)
class Workload:
    """The length of an epoch of training, in OpenCLIP's terms.

    ``workers`` and ``batch_size``: of one rank; 0 workers are one stream. ``samples``: of all
    ranks, an epoch. ``floor``: round the number of batches down.
    """

    job_rank: JobRank
    workers: int
    batch_size: int
    samples: float
    seed: int
    floor: bool = False
    buffers: Buffers = field(default_factory=Buffers)


class WorkerOrder(Order):
    """A batch of each worker in turn. ``urls``: the shards, as they were given."""

    urls: list[Shard]

    def steps(self, epoch: int, position: EpochPosition) -> Iterator[OrderStep]:
        """Yield a full batch of each stream in turn, without end."""
        for batch in count(position.batch):
            stream = StreamKey(source=0, round=0, number=batch % self.streams)
            yield OrderStep([StreamRun(stream, None, self.batch_size)])

    def first_round(self, epoch: int) -> Iterator[StreamKey]:
        """Yield the stream of each worker."""
        for number in range(self.streams):
            yield StreamKey(source=0, round=0, number=number)

    def state(self, position: EpochPosition) -> dict[str, Any]:
        """Return the position of each stream; none of them at the beginning of an epoch."""
        return {"batch": position.batch, "streams": [list(stream) for stream in position.streams]}

    def position(self, state: Mapping[str, Any]) -> EpochPosition:
        """Return the position in a state."""
        streams = [StreamPosition(*stream) for stream in state.get("streams", ())]
        return EpochPosition(int(state["batch"]), streams)

    def is_over(self, position: EpochPosition) -> bool:
        """Return whether all batches have been given: the same number on all ranks."""
        return position.batch >= self.num_batches


class EvaluationOrder(WorkerOrder):
    """Each shard once, in the given order, dealt to the streams in turn.

    This is how OpenCLIP reads shards for evaluation.
    """

    name = "in-order"
    at_end = "stop"

    def __init__(
        self, urls: Sequence[Shard], *, workers: int, batch_size: int, samples: int
    ) -> None:
        self.urls = list(urls)
        self.shards = len(urls)
        self.streams = max(1, workers)
        self.batch_size = batch_size
        self.num_batches = math.ceil(samples / batch_size)
        self.num_samples = samples

    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Yield the stream's shards; the same in each epoch."""
        yield from self.urls[stream.number :: self.streams]


class _TrainingOrder(WorkerOrder):
    """An epoch of OpenCLIP's training: enough full batches for all samples, rounded up twice."""

    def __init__(self, urls: Sequence[Shard], work: Workload) -> None:
        self.urls = list(urls)
        self._work = work
        self.shards = len(urls)
        self.streams = max(1, work.workers)
        self.batch_size = work.batch_size
        length = epoch_length(
            work.samples, work.batch_size, work.job_rank.world_size, work.workers, floor=work.floor
        )
        self.num_batches = length.batches
        self.num_samples = length.samples

    def steps(self, epoch: int, position: EpochPosition) -> Iterator[OrderStep]:
        """Yield a full batch of each stream in turn, to the end of the epoch."""
        return islice(super().steps(epoch, position), max(0, self.num_batches - position.batch))

    def worker_seed(self, epoch: int, stream: StreamKey) -> int:
        """Return the seed that OpenCLIP would give its worker."""
        work = self._work
        return worker_seed(self.base_seed, epoch, work.job_rank.rank, stream.number, work.workers)


class OpenClipOrder(_TrainingOrder):
    """Shards shuffled again each epoch, dealt to ranks and their workers.

    This is the default of open_clip_train.

    Source: open_clip_train/data.py, get_wds_dataset; its order of shards for equal seed, epoch,
    ranks and workers.
    """

    name = "openclip"

    def __init__(self, urls: Sequence[Shard], work: Workload) -> None:
        super().__init__(urls, work)
        ranks, workers = work.job_rank.world_size, work.workers
        if self.shards < ranks * workers:
            raise AssertionError(
                f"number of shards must be >= total workers: {how_many(self.shards, 'shard')} for "
                f"{how_many(ranks, 'rank')} x {how_many(workers, 'worker')}"
            )

    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Return the stream's shards; the same in each round of an epoch."""
        work = self._work
        seed = work.seed + epoch if work.seed >= 0 else self.worker_seed(epoch, stream)
        shuffled = epoch_order(self.urls, seed, work.buffers)
        return worker_share(
            shuffled, work.job_rank.rank, work.job_rank.world_size, stream.number, self.streams
        )


class ResampledOrder(_TrainingOrder):
    """An endless stream of shards drawn with replacement: ``--dataset-resampled``.

    Source: open_clip_train/data.py, ResampledShards2.
    """

    name = "resampled"
    endless = True

    def __init__(
        self, urls: Sequence[Shard], weights: Sequence[float] | None, work: Workload
    ) -> None:
        super().__init__(urls, work)
        self._weights = weights

    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Return shards without end."""
        return resampled(self.urls, self._weights, self.worker_seed(epoch, stream))

    def opened_shards(self, epoch: int) -> list[Shard]:
        """Return the first shards of all streams in turn, as if an epoch were one pass.

        There are about as many as shards exist.
        """
        streams = self._work.job_rank.world_size * self.streams
        count = -(-self.shards // streams)
        drawn = [islice(self.shards_of(epoch, key), count) for key in self.first_round(epoch)]
        return [shard for turn in zip(*drawn, strict=True) for shard in turn]
