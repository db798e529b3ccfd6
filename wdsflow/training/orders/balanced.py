"""The balanced order: one order of all samples of an epoch for the whole job, of any number of ranks and sources."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.shard import Shard
from wdsflow.training.ranks import JobRank
from wdsflow.training.sample_tasks import StreamKey

from .merged import Counts, shares_of
from .order import EpochPosition, Order, OrderStep, StreamRun, in_order_of_time

Last = Literal["exact", "even", "drop"]

# Divisible by many numbers of ranks, so that a stream is mostly read by one rank.
STREAMS = 48
# Bytes.
_MEMORY = 2 << 30
_LEAST_STREAM_BYTES = 1 << 20
# Of an epoch, to foresee which shards are opened when.
_PARTS = 16
# The sum of all weights as whole numbers.
_WEIGHTS = 1 << 26


@dataclass(frozen=True)
class MixedSource:
    """One source of an epoch: its shards with their numbers of usable samples, and its weight.

    ``ends``: the epoch ends when all samples of this source have been given, instead of giving them
    again.
    """

    shards: tuple[tuple[Shard, int], ...]
    weight: float = 1.0
    ends: bool = False

    @property
    def samples(self) -> int:
        """All usable samples."""
        return sum(count for _, count in self.shards)


class BalancedOrder(Order):
    """Each sample of an epoch once, for any number of ranks, decoders and batch size, and however often it is resumed.

    The shuffled shards of a source are dealt to at most ``most_streams`` streams; each stream
    shuffles its own samples. Streams are merged in proportion to their lengths, sources in
    proportion to their weights: see ``shares_of``. The next samples of this order are the next
    step, of which each rank takes streams that lie side by side. So a position is one number, how
    many samples of the epoch have been given, and any number of ranks can continue from it.

    ``last``: "exact" gives all samples, so that batches of the last step may differ by one sample
    between ranks; "even" leaves out the remainder, less than one per rank, because losses that
    gather all ranks need equal batches; "drop" leaves out the last incomplete batches. Steps have
    ``batch_size`` samples for each rank; the last two share what is left for them. If fewer samples
    than ranks are left, which only a resume by more ranks or batches of one sample cause, ranks
    that train ``together`` still need a batch each: some get one that another rank gets too.
    Otherwise the others' epoch has ended.

    ``length``: samples of an epoch; None: until each source that ends, or of several that repeat
    each one, has been given once. ``memory``: of the feed; an eighth of it is for raw content that
    is shuffled. ``shuffled``: False gives shards and samples in their order. Raises ValueError if
    there are fewer samples than ranks.
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
        self.sources = [_without_empty_shards(source) for source in sources]
        self.job_rank = job_rank
        self.batch_size = batch_size
        self.last = last
        self.shuffled = shuffled
        self.together = together
        # Of raw content in the shuffle buffer of a stream. The order of samples depends on it: it
        # is in states.
        self.stream_bytes = max(_LEAST_STREAM_BYTES, (memory or _MEMORY) // 8 // most_streams)
        self.seed = seed
        if len(sources) > 1:
            self.weights = [source.weight for source in sources]
        self.most_streams = most_streams if shuffled else 1
        self.shards = sum(len(source.shards) for source in self.sources)
        # Once: a source may have 100,000 shards.
        self._samples = [source.samples for source in self.sources]
        all_weights = sum(source.weight for source in self.sources)
        rates = [max(1, round(_WEIGHTS * source.weight / all_weights)) for source in self.sources]
        self._rates = np.array(rates, np.int64)
        self.length = self._length() if length is None else length
        ranks = job_rank.world_size
        if self.length < ranks:
            raise ValueError(
                f"an epoch of {self.length:,} samples with all fields is too short for {ranks} ranks"
            )
        self.streams = max(1, min(self.most_streams, self.shards))
        self.num_batches = self.steps_left(0)
        whole_number_of = {"exact": 1, "even": ranks, "drop": ranks * batch_size}[last]
        self.num_samples = self.length // whole_number_of * whole_number_of
        # A step begins where the step before has ended, in the one or two rounds of each source
        # that it takes from.
        latest = 4 * len(self.sources)
        self._dealt = lru_cache(maxsize=latest)(self._deal)
        self._of_sources = lru_cache(maxsize=2)(self._shares_of_sources)
        self._of_streams = lru_cache(maxsize=latest)(self._shares_of_streams)

    def shuffle(self, samples: int) -> Buffers | None:
        """Return the shuffle buffer of one stream, if those of all streams together hold so many samples; None for 0."""
        if not samples or not self.shuffled:
            return None
        of_one = -(-samples // self.streams)
        return Buffers(samples=of_one, samples_initial=of_one)

    def shards_of(self, epoch: int, stream: StreamKey) -> Iterator[Shard]:
        """Yield the shards of a stream."""
        streams, _ = self._dealt(stream.source, epoch, stream.round)
        for shard, _ in streams[stream.number]:
            yield shard

    def first_round(self, epoch: int) -> Iterator[StreamKey]:
        """Yield all streams of the first pass over each source: the same on all ranks."""
        for source in range(len(self.sources)):
            streams, _ = self._dealt(source, epoch, 0)
            for number in range(len(streams)):
                yield StreamKey(source, 0, number)

    def opened_shards(self, epoch: int) -> list[Shard]:
        """Return the shards that this rank opens in an epoch, about in the order in which it opens them.

        The epoch is taken in a few large steps. In each of them a rank has about the streams that it
        has in the small steps of batches.
        """
        rank, ranks = self.job_rank
        timed: dict[tuple[StreamKey, int], tuple[float, Shard]] = {}
        for part in range(_PARTS):
            start = self.length * part // _PARTS
            stop = self.length * (part + 1) // _PARTS
            size = stop - start
            runs = self._between(epoch, start, stop)
            for run in _slice(runs, size * rank // ranks, size * (rank + 1) // ranks):
                for number, first, shard in self._shards_of_run(epoch, run):
                    time = part + max(0, first - (run.first or 0)) / run.samples
                    timed.setdefault((run.stream, number), (time, shard))
        return in_order_of_time(timed.values())

    def _shards_of_run(self, epoch: int, run: StreamRun) -> Iterator[tuple[int, int, Shard]]:
        """Yield the number, the first sample and the name of each shard of a run."""
        streams, _ = self._dealt(run.stream.source, epoch, run.stream.round)
        assert run.first is not None
        first = 0
        for number, (shard, samples) in enumerate(streams[run.stream.number]):
            if first >= run.first + run.samples:
                return
            if first + samples > run.first:
                yield number, first, shard
            first += samples

    def steps(self, epoch: int, position: EpochPosition) -> Iterator[OrderStep]:
        """Yield the steps of this rank from a position on."""
        rank, ranks = self.job_rank
        start = position.samples
        while (size := self.next_size(start)) and (self.together or rank < size):
            stop = start + size
            runs = self._between(epoch, start, stop)
            # Ranks that get samples of their own; the others repeat theirs.
            served = min(size, ranks)
            share, remainder = divmod(size, served)
            number = rank % served
            first = number * share + min(number, remainder)
            count = share + (number < remainder)
            yield OrderStep(list(_slice(runs, first, first + count)), stop, repeated=rank >= served)
            start = stop

    def state(self, position: EpochPosition) -> dict[str, Any]:
        """Return the samples of all ranks so far; after the last batch all, also for smaller batches or other ranks."""
        over = position.samples and self.is_over(position)
        return {"samples": self.length if over else position.samples}

    def position(self, state: Mapping[str, Any]) -> EpochPosition:
        """Return the position in a state."""
        return EpochPosition(samples=int(state["samples"]))

    def is_over(self, position: EpochPosition) -> bool:
        """Return whether there is no next step."""
        return not self.next_size(position.samples)

    def at_last(self, position: EpochPosition) -> EpochPosition:
        """Return the position after a step for which this rank had no sample."""
        return EpochPosition(samples=position.samples + self.next_size(position.samples))

    def batches_before(self, position: EpochPosition) -> int:
        """Return how many batches of the epoch come before a position, as this rank counts them now."""
        return self.num_batches - self.steps_left(position.samples)

    def steps_left(self, start: int) -> int:
        """Return the number of steps from a position to the end of the epoch."""
        full = self.job_rank.world_size * self.batch_size
        # Until at most two full steps are left.
        count = max(0, (self._left(start) - full - 1) // full)
        start += count * full
        while (size := self.next_size(start)) and (self.together or self.job_rank.rank < size):
            count += 1
            start += size
        return count

    def next_size(self, start: int) -> int:
        """Return the samples of the next step of all ranks; 0 at the end of the epoch."""
        ranks, left = self.job_rank.world_size, self._left(start)
        full = ranks * self.batch_size
        if left > 2 * full or self.last == "drop":
            return full if left >= full else 0
        if left <= full:
            return left
        half = max(ranks, -(-left // 2))
        return -(-half // ranks) * ranks if self.last == "even" else half

    def _left(self, start: int) -> int:
        left = self.length - start
        if self.last == "even":
            return left // self.job_rank.world_size * self.job_rank.world_size
        return left

    def _between(self, epoch: int, start: int, stop: int) -> list[StreamRun]:
        """Return the samples ``start`` to ``stop`` of an epoch, side by side what is read side by side."""
        runs: list[tuple[float, StreamRun]] = []
        shares = zip(self._of_sources(start).tolist(), self._of_sources(stop).tolist(), strict=True)
        for source, (first, end) in enumerate(shares):
            samples = self._samples[source]
            for round_ in range(first // samples, -(-end // samples)):
                done = round_ * samples
                begins = self._of_streams(source, epoch, round_, max(0, first - done))
                ends = self._of_streams(source, epoch, round_, min(samples, end - done))
                _, lengths = self._dealt(source, epoch, round_)
                for number in np.flatnonzero(ends > begins).tolist():
                    at, until = int(begins[number]), int(ends[number])
                    stream = StreamKey(source, round_, number)
                    run = StreamRun(stream, at, until - at, ends=until == int(lengths[number]))
                    runs.append(((number + 0.5) / len(lengths), run))
        return [run for _, run in sorted(runs)]

    def _shares_of_sources(self, first: int) -> Counts:
        """Return how many of the first samples of an epoch come from each source."""
        return shares_of(self._rates, first)

    def _shares_of_streams(self, source: int, epoch: int, round_: int, first: int) -> Counts:
        """Return how many of the first samples of a pass over a source come from each of its streams."""
        _, lengths = self._dealt(source, epoch, round_)
        return lengths if first >= self._samples[source] else shares_of(lengths, first)

    def _length(self) -> int:
        """Return the samples of an epoch by the sources that end it."""
        if len(self.sources) == 1:
            return self._samples[0]
        ending = [number for number, source in enumerate(self.sources) if source.ends]
        lengths = []
        for number in ending or range(len(self.sources)):
            rate, samples = int(self._rates[number]), self._samples[number]
            # The last sample comes at (samples - 1/2) / rate;
            # each source has given what comes until then.
            length = 0
            for other_rate in self._rates.tolist():
                length += (other_rate * (2 * samples - 1) + rate) // (2 * rate)
            lengths.append(length)
        return min(lengths) if ending else max(lengths)

    def _deal(
        self, source: int, epoch: int, round_: int
    ) -> tuple[list[list[tuple[Shard, int]]], Counts]:
        """Return the shards of each stream in one pass over a source, and the length of each stream in samples.

        The order of shards is decided here alone. If it changes, states of the order before must be
        refused: give the identity of the feed another value (``wdsflow/training/torch_feed.py`` and ``openclip.py`` next to it).
        """
        order = list(self.sources[source].shards)
        if self.shuffled:
            random.Random(f"{self.seed} {source} {epoch} {round_}").shuffle(order)
        count = min(self.most_streams, len(order))
        streams = [order[number::count] for number in range(count)]
        lengths = [sum(samples for _, samples in stream) for stream in streams]
        return streams, np.array(lengths, np.int64)


def _without_empty_shards(source: MixedSource) -> MixedSource:
    shards = tuple((shard, count) for shard, count in source.shards if count)
    return MixedSource(shards, source.weight, source.ends)


def _slice(runs: Sequence[StreamRun], start: int, stop: int) -> Iterator[StreamRun]:
    """Yield the samples ``start`` to ``stop`` of runs in a row."""
    at = 0
    for run in runs:
        assert run.first is not None
        skipped = max(start - at, 0)
        until = min(stop - at, run.samples)
        if skipped < until:
            yield StreamRun(
                run.stream,
                run.first + skipped,
                until - skipped,
                ends=run.ends and until == run.samples,
            )
        at += run.samples
