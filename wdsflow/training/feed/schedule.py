"""The order of shards for each rank and lane, the sizes of batches, and the length of an epoch.

A lane corresponds to a worker of OpenCLIP's DataLoader: a stream of shards that fills its own batches. Batches come
from the lanes in turn.
"""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wdsflow.readers.open_clip.versions import Buffers, epoch_length, epoch_order, resampled, worker_seed, worker_share
from wdsflow.text.words import how_many
from wdsflow.training.ranks import RankPlace


class ShardPiece(NamedTuple):
    """Samples ``start`` to ``stop`` (None: the end) of a shard, among those that have an image and a caption."""

    url: str
    start: int = 0
    stop: int | None = None


class Schedule(ABC):
    """The shards and batches of a rank. ``base_seed`` is drawn as a DataLoader draws it, when the first epoch begins.

    ``at_end``: what a lane does after all samples of a pass: "restart" and drop an incomplete batch, "fill" the batch
    with samples of the next pass, "stop" with a smaller batch.
    """

    name: str
    shards: int
    lanes: int
    batch_size: int
    num_batches: int  # of this rank, an epoch
    num_samples: int  # of all ranks, an epoch
    at_end: Literal["restart", "fill", "stop"] = "restart"
    endless: bool = False  # passes never end
    base_seed: int = 0

    @abstractmethod
    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield the pieces of shards that a lane reads in one pass."""

    def size(self, batch: int) -> int:
        """Return the number of samples of a batch, counted from 0 in its epoch."""
        return self.batch_size


class InOrder(Schedule):
    """Each shard once, as given, dealt to the lanes in turn: how OpenCLIP reads shards for evaluation."""

    name = "in-order"
    at_end = "stop"

    def __init__(self, urls: Sequence[str], *, lanes: int, batch_size: int, samples: int) -> None:
        self._urls, self.lanes, self.batch_size, self.shards = list(urls), max(1, lanes), batch_size, len(urls)
        self.num_batches, self.num_samples = math.ceil(samples / batch_size), samples

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield the lane's shards; the same in each epoch."""
        yield from map(ShardPiece, self._urls[lane :: self.lanes])


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

    def __init__(self, urls: Sequence[str], work: Workload) -> None:
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

    def __init__(self, urls: Sequence[str], work: Workload) -> None:
        super().__init__(urls, work)
        ranks, workers = work.place.world_size, work.workers
        if self.shards < ranks * workers:
            raise AssertionError(
                f"number of shards must be >= total workers: {how_many(self.shards, 'shard')} for "
                f"{how_many(ranks, 'rank')} x {how_many(workers, 'worker')}"
            )

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield the lane's shards; the same in each pass of an epoch."""
        work = self._work
        seed = work.seed + epoch if work.seed >= 0 else self.worker_seed(lane, epoch)
        mixed = epoch_order(self._urls, seed, work.buffers)
        yield from map(ShardPiece, worker_share(mixed, work.place.rank, work.place.world_size, lane, self.lanes))


class ResampledSchedule(_Training):
    """An endless stream of shards drawn with replacement: ``--dataset-resampled``.

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


class Balanced(Schedule):
    """The shuffled shards of an epoch in a row, divided into stretches of equal length, one for each rank.

    A rank has one lane; there may be fewer shards than ranks. Batches of an epoch differ by at most one sample in size,
    none exceeds the batch size. If ranks train together (``together``), their batches have equal sizes at each step,
    which a gathered loss needs: a remainder that cannot be shared equally, less than one per rank, is skipped for one
    epoch. Otherwise some ranks get one sample more. Unreadable samples are replaced from the beginning of the stretch.

    ``counts``: samples of each shard that have an image and a caption. Raises ValueError if there are fewer samples
    than ranks.
    """

    name = "balanced"
    lanes = 1
    at_end = "fill"

    def __init__(
        self,
        urls: Sequence[str],
        counts: Sequence[int],
        *,
        place: RankPlace,
        batch_size: int,
        seed: int,
        together: bool,
    ) -> None:
        self._shards = [(url, count) for url, count in zip(urls, counts, strict=True) if count]
        total = sum(count for _, count in self._shards)
        ranks = place.world_size
        if total < ranks:
            raise ValueError(f"{total} samples with image and caption are too few for {ranks} ranks")
        self._place, self._seed, self.shards = place, seed, len(self._shards)
        self._last = random.Random(seed).sample(self._shards, len(self._shards))
        self._share, self._rest = divmod(total, ranks)
        if together:
            self._rest = 0
        # With batches of one sample a rank may have one sample less than there are batches.
        self.num_batches = min(-(-(self._share + bool(self._rest)) // batch_size), self._share)
        self.num_samples = self._share * ranks + self._rest
        self._own = self._share + (place.rank < self._rest)

    def size(self, batch: int) -> int:
        """Return the number of samples of a batch."""
        small, larger = divmod(self._own, self.num_batches)
        return small + (batch < larger)

    def pieces(self, epoch: int, lane: int) -> Iterator[ShardPiece]:
        """Yield this rank's stretch of the epoch."""
        start = self._place.rank * self._share + min(self._place.rank, self._rest)
        stop, at = start + self._own, 0
        for url, count in self._order(epoch):
            first, last = max(0, start - at), min(count, stop - at)
            if first < last:
                yield ShardPiece(url, first, None if last == count else last)
            at += count

    def _order(self, epoch: int) -> list[tuple[str, int]]:
        order = list(self._shards)
        random.Random(f"{self._seed} {epoch}").shuffle(order)
        # The skipped samples are in the last shard, a different one each epoch.
        last = self._last[epoch % len(self._last)]
        order.remove(last)
        return [*order, last]
