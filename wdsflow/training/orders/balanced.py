"""The balanced order: one order of an epoch's samples for the whole job.

It works for any number of ranks and sources.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.shard import Shard
from wdsflow.training.ranks import JobRank
from wdsflow.training.sample_tasks import StreamKey

from .mixed_streams import MixedSource, MixedStreams, runs_between
from .order import EpochPosition, Order, OrderStep, in_order_of_time
from .step_sizes import Last, StepSizes

# Divisible by many numbers of ranks, so that a stream is mostly read by one rank.
STREAMS = 48
# Bytes of the feed, unless they are given.
_MEMORY = 2 << 30
_LEAST_STREAM_BYTES = 1 << 20
# Of an epoch, to foresee which shards are opened when.
_PARTS = 16


class BalancedOrder(Order):
    """Yields each sample of an epoch once, for any ranks, decoders, batch size and resumes.

    ``MixedStreams`` is the order of all samples; each stream shuffles its own samples. The next
    samples of this order are the next step, of which each rank takes streams that lie side by side.
    So a position is one number, how many samples of the epoch have been given, and any number of
    ranks can continue from it.

    ``last`` and ``batch_size``: see ``StepSizes``. If fewer samples than ranks are left, which only
    a resume by more ranks or batches of one sample cause, ranks that train ``together`` still need
    a batch each: some get one that another rank gets too. Otherwise the others' epoch has ended.

    ``length``: samples of an epoch; None: see ``MixedStreams.epoch_length``. ``memory``: of the
    feed; an eighth of it is for raw content that is shuffled. ``shuffled``: False gives shards and
    samples in their order. Raises ValueError if there are fewer samples than ranks.
    """

    name = "balanced"
    global_order = True
    at_end = "stop"

    def __init__(
        self,
        sources: Sequence[MixedSource],
        *,
        job_rank: JobRank,
        batch_size: int,
        seed: int,
        last: Last = "exact",
        most_streams: int = STREAMS,
        together: bool = False,
        memory: int | None = None,
        length: int | None = None,
        shuffled: bool = True,
    ) -> None:
        self.job_rank = job_rank
        self.batch_size = batch_size
        self.seed = seed
        self.last = last
        self.together = together
        self.shuffled = shuffled
        # Of raw content in the shuffle buffer of a stream. The order of samples depends on it: it
        # is in states.
        self.stream_bytes = max(_LEAST_STREAM_BYTES, (memory or _MEMORY) // 8 // most_streams)
        self.most_streams = most_streams if shuffled else 1
        if len(sources) > 1:
            self.weights = [source.weight for source in sources]
        self.mixed = MixedStreams(
            sources, seed=seed, most_streams=self.most_streams, shuffled=shuffled
        )
        self.shards = self.mixed.shards
        self.streams = max(1, min(self.most_streams, self.shards))
        self.length = self.mixed.epoch_length() if length is None else length
        ranks = job_rank.world_size
        if self.length < ranks:
            raise ValueError(
                f"an epoch of {self.length:,} samples with all fields is too short for {ranks} ranks"
            )
        self._sizes = StepSizes(self.length, ranks, batch_size, last)
        self.num_samples = self._sizes.num_samples
        self.num_batches = self.steps_left(0)

    def shuffle(self, samples: int) -> Buffers | None:
        """Return the shuffle buffer of one stream; None for 0 samples.

        The buffers of all streams together hold this number of samples.
        """
        if not samples or not self.shuffled:
            return None
        samples_of_stream = -(-samples // self.streams)
        return Buffers(samples=samples_of_stream, samples_initial=samples_of_stream)

    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Yield the shards of a stream."""
        for shard, _ in self.mixed.shards_of(epoch, stream):
            yield shard

    def first_round(self, epoch: int) -> Iterator[StreamKey]:
        """Yield all streams of the first pass over each source: the same on all ranks."""
        return self.mixed.first_round(epoch)

    def opened_shards(self, epoch: int) -> list[Shard]:
        """Return the shards that this rank opens in an epoch, roughly in order of opening.

        The epoch is taken in a few large steps. In each of them a rank has about the streams that
        it has in the small steps of batches.
        """
        rank, ranks = self.job_rank
        timed: dict[tuple[StreamKey, int], tuple[float, Shard]] = {}
        step = self.batch_size * ranks
        borders = [self.length * part // _PARTS // step * step for part in range(_PARTS)]
        for part, (start, stop) in enumerate(pairwise([*borders, self.length])):
            size = stop - start
            runs = self.mixed.runs(epoch, start, stop)
            for run in runs_between(runs, size * rank // ranks, size * (rank + 1) // ranks):
                for number, first, shard in self.mixed.shards_of_run(epoch, run):
                    time = part + max(0, first - (run.first or 0)) / run.samples
                    timed.setdefault((run.stream, number), (time, shard))
        return in_order_of_time(timed.values())

    def steps(self, epoch: int, position: EpochPosition) -> Iterator[OrderStep]:
        """Yield the steps of this rank from a position on."""
        rank, ranks = self.job_rank
        start = position.samples
        while self._gets_batch(size := self._sizes.next_size(start)):
            stop = start + size
            runs = self.mixed.runs(epoch, start, stop)
            # Ranks that get samples of their own; the others repeat theirs.
            served = min(size, ranks)
            share, remainder = divmod(size, served)
            number = rank % served
            # The first ranks get one sample of the remainder each.
            first = number * share + min(number, remainder)
            count = share + (number < remainder)
            own_runs = list(runs_between(runs, first, first + count))
            yield OrderStep(own_runs, stop, repeated=rank >= served)
            start = stop

    def _gets_batch(self, size: int) -> bool:
        """Return whether this rank gets a batch of a step of ``size`` samples.

        No rank does at the end of the epoch.
        """
        if not size:
            return False
        return self.together or self.job_rank.rank < size

    def state(self, position: EpochPosition) -> dict[str, Any]:
        """Return the number of samples that all ranks have been given.

        After the last batch these are all samples, also for smaller batches or other ranks.
        """
        over = position.samples and self.is_over(position)
        return {"samples": self.length if over else position.samples}

    def position(self, state: Mapping[str, Any]) -> EpochPosition:
        """Return the position in a state."""
        return EpochPosition(samples=int(state["samples"]))

    def is_over(self, position: EpochPosition) -> bool:
        """Return whether there is no next step."""
        return not self._sizes.next_size(position.samples)

    def at_last(self, position: EpochPosition) -> EpochPosition:
        """Return the position after a step for which this rank had no sample."""
        size = self._sizes.next_size(position.samples)
        return EpochPosition(samples=position.samples + size)

    def batches_before(self, position: EpochPosition) -> int:
        """Return how many batches of the epoch come before a position.

        They are counted as this rank counts them now.
        """
        return self.num_batches - self.steps_left(position.samples)

    def steps_left(self, start: int) -> int:
        """Return the number of steps of this rank from a position to the end of the epoch."""
        full = self._sizes.full
        # All steps are full until at most two full ones are left.
        count = max(0, (self._sizes.remaining(start) - full - 1) // full)
        start += count * full
        while self._gets_batch(size := self._sizes.next_size(start)):
            count += 1
            start += size
        return count
