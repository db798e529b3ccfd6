"""Sources dealt to streams, and the streams merged: one order of all samples of an epoch."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wdsflow.shards.shard import Shard
from wdsflow.training.sample_tasks import StreamKey

from .merged import Counts, shares_of
from .order import StreamRun

# A shard, and its number of usable samples.
CountedShard = tuple[Shard, int]

# Groups of neighbouring streams that keep their shards. More of them would suit more machines, but
# streams of one group never have shards of another.
_GROUPS = 16
# The sum of all weights as whole numbers.
_WEIGHTS = 1 << 26


@dataclass(frozen=True)
class MixedSource:
    """One source of an epoch: its shards with their numbers of usable samples, and its weight.

    ``ends``: the epoch ends when all samples of this source have been given, instead of giving them
    again.
    """

    shards: tuple[CountedShard, ...]
    weight: float = 1.0
    ends: bool = False

    @property
    def samples(self) -> int:
        """All usable samples."""
        return sum(count for _, count in self.shards)

    def without_empty_shards(self) -> "MixedSource":
        """Return the source without shards that have no usable sample."""
        shards = tuple((shard, count) for shard, count in self.shards if count)
        return MixedSource(shards, self.weight, self.ends)


class DealtShards(NamedTuple):
    """The shards of each stream in one pass over a source, and the groups of streams.

    Lengths are in samples.
    """

    streams: list[list[CountedShard]]
    lengths: Counts
    groups: list[slice]
    lengths_of_groups: Counts


class MixedStreams:
    """The order of the samples of an epoch, from several sources.

    The shuffled shards of a source are dealt to at most ``most_streams`` streams. Streams are
    merged in proportion to their lengths, sources in proportion to their weights: see
    ``shares_of``. A source that is given more than once begins another round, with its shards in
    another order.

    A group of neighbouring streams has the same shards in each round, in another order. The ranks
    of a machine read streams that lie side by side: so a machine reads the same shards in each
    epoch, which its cache may have. Any two shards can still be read at the same time.
    """

    def __init__(
        self, sources: Sequence[MixedSource], *, seed: int, most_streams: int, shuffled: bool
    ) -> None:
        self.sources = [source.without_empty_shards() for source in sources]
        self.shards = sum(len(source.shards) for source in self.sources)
        self._seed = seed
        self._most_streams = most_streams
        self._shuffled = shuffled
        # Counted once: a source may have 100,000 shards.
        self._samples = [source.samples for source in self.sources]
        all_weights = sum(source.weight for source in self.sources)
        rates = [max(1, round(_WEIGHTS * source.weight / all_weights)) for source in self.sources]
        self._rates = np.array(rates, np.int64)
        # A step begins where the step before has ended, in the one or two rounds of each source
        # that it takes from.
        latest = 4 * len(self.sources)
        self.dealt = lru_cache(maxsize=latest)(self._deal)
        self._of_sources = lru_cache(maxsize=2)(self._shares_of_sources)
        self._of_streams = lru_cache(maxsize=latest)(self._shares_of_streams)

    def epoch_length(self) -> int:
        """Return the number of samples in an epoch.

        An epoch lasts until the first source that ends has been given once. If none ends, until
        each source has been given at least once.
        """
        if len(self.sources) == 1:
            return self._samples[0]
        ending = [number for number, source in enumerate(self.sources) if source.ends]
        if ending:
            return min(map(self._length_for, ending))
        return max(map(self._length_for, range(len(self.sources))))

    def _length_for(self, source: int) -> int:
        """Return the samples of all sources until the last sample of one."""
        rate, samples = int(self._rates[source]), self._samples[source]
        # The last sample comes at (samples - 1/2) / rate;
        # each source has given what comes until then.
        length = 0
        for other_rate in self._rates.tolist():
            length += (other_rate * (2 * samples - 1) + rate) // (2 * rate)
        return length

    def first_round(self, epoch: int) -> Iterator[StreamKey]:
        """Yield all streams of the first pass over each source."""
        for source in range(len(self.sources)):
            for number in range(len(self.dealt(source, epoch, 0).streams)):
                yield StreamKey(source, 0, number)

    def shards_of(self, epoch: int, stream: StreamKey) -> list[CountedShard]:
        """Return the shards of a stream."""
        return self.dealt(stream.source, epoch, stream.round).streams[stream.number]

    def shards_of_run(self, epoch: int, run: StreamRun) -> Iterator[tuple[int, int, Shard]]:
        """Yield the shards of a run.

        Each comes with its number in the stream and the position of its first sample there.
        """
        assert run.first is not None
        end = run.first + run.samples
        first = 0
        for number, (shard, samples) in enumerate(self.shards_of(epoch, run.stream)):
            if first >= end:
                return
            if first + samples > run.first:
                yield number, first, shard
            first += samples

    def runs(self, epoch: int, start: int, stop: int) -> list[StreamRun]:
        """Return the samples ``start`` to ``stop`` of an epoch as runs of streams.

        Runs that are read side by side are next to each other.
        """
        placed: list[tuple[float, StreamRun]] = []
        begins = self._of_sources(start).tolist()
        ends = self._of_sources(stop).tolist()
        for source, samples in enumerate(self._samples):
            begin, end = begins[source], ends[source]
            first_round = begin // samples
            end_round = -(-end // samples)
            for round_ in range(first_round, end_round):
                before = round_ * samples
                first = max(0, begin - before)
                last = min(samples, end - before)
                placed += self._runs_of_round(epoch, source, round_, first, last)
        return [run for _, run in sorted(placed)]

    def _runs_of_round(
        self, epoch: int, source: int, round_: int, start: int, stop: int
    ) -> Iterator[tuple[float, StreamRun]]:
        """Yield the samples ``start`` to ``stop`` of one pass over a source, stream by stream.

        The number before each is the place of its stream among all of the source, from 0 to 1.
        """
        begins = self._of_streams(source, epoch, round_, start)
        ends = self._of_streams(source, epoch, round_, stop)
        lengths = self.dealt(source, epoch, round_).lengths
        for number in np.flatnonzero(ends > begins).tolist():
            first, end = int(begins[number]), int(ends[number])
            stream = StreamKey(source, round_, number)
            is_last = end == int(lengths[number])
            run = StreamRun(stream, first, end - first, ends=is_last)
            yield (number + 0.5) / len(lengths), run

    def _shares_of_sources(self, first: int) -> Counts:
        """Return how many of the first samples of an epoch come from each source."""
        return shares_of(self._rates, first)

    def _shares_of_streams(self, source: int, epoch: int, round_: int, first: int) -> Counts:
        """Return how many samples each stream contributes to the start of a pass over a source.

        ``first``: the number of samples from the start of the pass.
        """
        dealt = self.dealt(source, epoch, round_)
        if first >= self._samples[source]:
            return dealt.lengths
        # Groups of equal length get equal parts of a step: then no machine takes a few samples of
        # each shard of its neighbour.
        shares = shares_of(dealt.lengths_of_groups, first).tolist()
        parts = [
            shares_of(dealt.lengths[group], share)
            for group, share in zip(dealt.groups, shares, strict=True)
        ]
        return np.concatenate(parts)

    def _deal(self, source: int, epoch: int, round_: int) -> DealtShards:
        """Deal the shards of a source to its streams.

        The order of shards is decided here alone. If it changes, states of the order before must be
        refused: give the identity of the feed another value, in ``wdsflow/training/torch_feed.py``
        and in ``openclip_identity.py`` next to it.
        """
        order = list(self.sources[source].shards)
        if self._shuffled:
            # The same in all epochs.
            random.Random(f"{self._seed} {source}").shuffle(order)
        count = min(self._most_streams, len(order))
        streams = _deal_in_turn(order, count)
        groups = _groups(count)
        if self._shuffled:
            rng = random.Random(f"{self._seed} {source} {epoch} {round_}")
            for group in groups:
                shards = [shard for stream in streams[group] for shard in stream]
                rng.shuffle(shards)
                streams[group] = _deal_in_turn(shards, len(streams[group]))
        lengths = np.array([sum(samples for _, samples in stream) for stream in streams], np.int64)
        lengths_of_groups = np.array([lengths[group].sum() for group in groups], np.int64)
        return DealtShards(streams, lengths, groups, lengths_of_groups)


def _groups(streams: int) -> list[slice]:
    """Return the groups of so many streams.

    >>> _groups(48)[:2], len(_groups(48))
    ([slice(0, 3, None), slice(3, 6, None)], 16)
    """
    count = min(_GROUPS, streams)
    borders = [streams * group // count for group in range(count + 1)]
    return [slice(first, end) for first, end in pairwise(borders)]


def _deal_in_turn(shards: Sequence[CountedShard], streams: int) -> list[list[CountedShard]]:
    """Deal shards to streams in turn."""
    return [list(shards[number::streams]) for number in range(streams)]


def runs_between(runs: Sequence[StreamRun], start: int, stop: int) -> Iterator[StreamRun]:
    """Yield the samples ``start`` to ``stop`` of runs in a row."""
    position = 0
    for run in runs:
        assert run.first is not None
        skipped = max(start - position, 0)
        end = min(stop - position, run.samples)
        if skipped < end:
            is_last = run.ends and end == run.samples
            yield StreamRun(run.stream, run.first + skipped, end - skipped, ends=is_last)
        position += run.samples
