"""What an order says: the batches of a rank as runs of streams, and the shards of each stream."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from wdsflow.shards.shard import Shard
from wdsflow.training.sample_tasks import StreamKey


class StreamRun(NamedTuple):
    """Samples of a stream in a row."""

    stream: StreamKey
    # In the stream's own order; None: wherever the stream is.
    first: int | None
    samples: int
    # Whether the last of them is the last sample of the stream.
    ends: bool = False

    def after(self, drawn: int) -> "StreamRun":
        """Return the run without its first ``drawn`` samples."""
        first = None if self.first is None else self.first + drawn
        return self._replace(first=first, samples=self.samples - drawn)


class OrderStep(NamedTuple):
    """The batch of one rank.

    ``stop``: samples of the epoch that all ranks together have been given after this step; 0 if the
    order does not count them. ``repeated``: another rank gets the same samples, because fewer
    samples than ranks are left.
    """

    runs: Sequence[StreamRun]
    stop: int = 0
    repeated: bool = False

    @property
    def size(self) -> int:
        """Samples of this rank."""
        return sum(run.samples for run in self.runs)


class StreamPosition(NamedTuple):
    """How far a stream is: the round that it is in, and how many samples of it are done."""

    round: int = 0
    number: int = 0


class EpochPosition(NamedTuple):
    """The progress of an epoch.

    Each order uses its own part: the position of each stream, or the samples of all ranks.
    """

    batch: int = 0
    # None of them: all streams are at their beginning.
    streams: Sequence[StreamPosition] = ()
    samples: int = 0


class Order(ABC):
    """The batches of one rank, epoch by epoch.

    All methods depend only on their arguments and on ``base_seed``.

    ``global_order``: there is one order of samples for all ranks. A position in it is one number,
    from which any number of ranks can continue, and streams are the same on all ranks. A lost
    sample keeps its slot in the batch, and a sample from elsewhere fills it, so that other ranks
    need not know of it. Otherwise each rank has its own streams, from the beginning of the epoch to
    its end, and the next sample of the same stream moves up.

    ``at_end``: what a stream does after the last sample of its shards: it begins again ("restart"),
    and what it has for an incomplete batch is dropped; or it stops. ``endless``: the shards of a
    stream never end.

    ``base_seed``: drawn as a DataLoader draws it, when the first epoch begins.
    """

    name: str
    shards: int
    # That are read side by side, about.
    streams: int
    batch_size: int
    # Of this rank, an epoch; 0 if unknown.
    num_batches: int
    # Of all ranks, an epoch.
    num_samples: int
    # Of the sources, if there are several.
    weights: Sequence[float] = ()
    global_order: bool = False
    at_end: Literal["restart", "stop"] = "restart"
    endless: bool = False
    # Of raw content in the shuffle buffer of a stream; None: a share of the feed's memory.
    stream_bytes: int | None = None
    base_seed: int = 0

    @abstractmethod
    def steps(self, epoch: int, position: EpochPosition) -> Iterator[OrderStep]:
        """Yield the batches of this rank after a position.

        They are endless if their number depends on the contents of the shards.
        """

    @abstractmethod
    def first_round(self, epoch: int) -> Iterator[StreamKey]:
        """Yield all streams of the first pass over each source."""

    @abstractmethod
    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Yield the shards of a stream, in the order in which they are read."""

    def opened_shards(self, epoch: int) -> list[Shard]:
        """Return the shards that this rank opens in an epoch.

        They are roughly in the order of opening.
        """
        timed: list[tuple[float, Shard]] = []
        for stream in self.first_round(epoch):
            shards = list(self.shards_of(epoch, stream))
            timed += [(number / len(shards), shard) for number, shard in enumerate(shards)]
        return in_order_of_time(timed)

    @abstractmethod
    def state(self, position: EpochPosition) -> dict[str, Any]:
        """Return a position as JSON values."""

    @abstractmethod
    def position(self, state: Mapping[str, Any]) -> EpochPosition:
        """Return the position in a state that ``state`` made."""

    @abstractmethod
    def is_over(self, position: EpochPosition) -> bool:
        """Return whether an epoch has no more batches for any rank."""

    def at_last(self, position: EpochPosition) -> EpochPosition:
        """Return where all ranks are once this one has its last batch: others may get one more."""
        return position

    def batches_before(self, position: EpochPosition) -> int:
        """Return how many batches of the epoch this rank has been given at a position."""
        return position.batch


def in_order_of_time(timed: Iterable[tuple[float, Shard]]) -> list[Shard]:
    """Return shards by their times, those of equal times as they are."""
    return [shard for _, shard in sorted(timed, key=itemgetter(0))]
