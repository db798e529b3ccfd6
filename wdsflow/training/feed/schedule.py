"""Who reads what, in which order: lanes of shards, batch sizes, the length of an epoch.

A lane is what OpenCLIP calls a DataLoader's worker: a stream of shards that fills batches of its own. Batches come
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


class Balanced(Schedule):
    """The shards of an epoch in a row, shuffled, cut into as many stretches of equal length as there are ranks.

    One lane a rank; shards may be fewer than ranks. Batches of an epoch differ by at most one sample in size, none is
    larger than asked. Where ranks are trained together (``together``) their batches have equal sizes step by step, as
    a gathered loss needs it: of a number of samples that the ranks do not divide, the few left over (fewer than there
    are ranks) rest for one epoch. Otherwise some ranks get one sample more. What cannot be read is made up for by
    samples from the beginning of the rank's stretch.

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
        # What rests is in the last shard: another one in each epoch.
        last = self._last[epoch % len(self._last)]
        order.remove(last)
        return [*order, last]
