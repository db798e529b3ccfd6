"""The balanced schedule: one order of all samples of an epoch for the whole job, of any number of ranks and sources."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.shard import Shard
from wdsflow.training.ranks import RankPlace

from .schedule import Schedule

Counts = NDArray[np.int64]
Last = Literal["exact", "even", "drop"]

LANES = 48  # divisible by many numbers of ranks, so that a lane is mostly read by one rank
_QUANTA = 1 << 30
_MEMORY = 2 << 30  # bytes
_WEIGHTS = 1 << 26  # the sum of all weights as whole numbers


def shares_of(rates: Counts, first: int) -> Counts:
    """Return how many of the ``first`` items of a merged order come from each stream.

    Stream i has ``rates[i]`` items in a unit of time: its item j (from 0) comes at (j + 1/2) / rates[i], equal times in
    the order of streams. Whole numbers only: the same on every machine. Times closer than 2**-30 count as equal.

    Of n streams, one of share w is never more than 1/2 + w * (n - 2) / 2 items away from its share. For at time t each
    stream is at most 1/2 from t * rate: by e, say. All have then given t * sum(rates) + sum(e) items, of which w is
    w * sum(e) more than t * rate: the stream is e - w * sum(e) = (1 - w) * e - w * (the others' e) away from its share.
    """
    total = int(rates.sum())
    # By then at least ``first`` minus one per stream have come, or at most ``first`` plus one per stream.
    low, high = (max(0, (first + some) * _QUANTA // total + 1) for some in (-len(rates) - 1, len(rates)))

    def come(time: int) -> Counts:
        whole, part = divmod(time, _QUANTA)  # apart, because the product of all would exceed 64 bits
        found: Counts = rates * whole + (2 * rates * part + _QUANTA) // (2 * _QUANTA)
        return found

    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if int(come(middle).sum()) <= first else (low, middle)
    found = come(low)
    more = come(low + 1) - found
    rest = first - int(found.sum())
    shared: Counts = found + np.clip(rest - (np.cumsum(more) - more), 0, more)
    return shared


@dataclass(frozen=True)
class MixedSource:
    """One source of an epoch: its shards with their numbers of usable samples, and its weight.

    ``ends``: the epoch ends when all samples of this source have been given, instead of giving them again.
    """

    shards: tuple[tuple[Shard, int], ...]
    weight: float = 1.0
    ends: bool = False

    @property
    def samples(self) -> int:
        """All usable samples."""
        return sum(count for _, count in self.shards)


class Part(NamedTuple):
    """Samples ``first`` to ``first + samples`` of a lane, in the lane's own order; ``turn``: the pass of its source."""

    source: int
    turn: int
    lane: int
    first: int
    samples: int


class Step(NamedTuple):
    """One step of all ranks: samples ``start`` to ``stop`` of the epoch, and what of it one rank gets.

    ``repeated``: the rank gets what another rank gets too, because fewer samples than ranks are left.
    """

    start: int
    stop: int
    parts: list[Part]
    repeated: bool = False

    @property
    def size(self) -> int:
        """Samples of this rank."""
        return sum(part.samples for part in self.parts)


class Balanced(Schedule):
    """Each sample of an epoch once, whatever the number of ranks, decoders and the batch size, and however often it is resumed.

    The shuffled shards of a source are dealt to at most ``most_lanes`` lanes; each lane shuffles its own samples. Lanes
    are merged in proportion to their lengths, sources in proportion to their weights: see ``shares_of``. The next
    samples of this order are the next step, of which each rank takes lanes that lie side by side. So a position is one
    number, how many samples of the epoch have been given, and any number of ranks can continue from it.

    ``last``: "exact" gives all samples, so that batches of the last step may differ by one sample between ranks; "even"
    leaves out the remainder, less than one per rank, because losses that gather all ranks need equal batches; "drop"
    leaves out the last incomplete batches. Steps have ``batch_size`` samples for each rank; the last two share what is
    left for them. If fewer samples than ranks are left, which only a resume by more ranks or batches of one sample
    cause, ranks that train ``together`` still need a batch each: some get one that another rank gets too. Otherwise the
    others' epoch has ended.

    ``length``: samples of an epoch; None: until each source that ends, or of several that repeat each one, has been
    given once. ``memory``: of the feed; an eighth of it is for raw content that is shuffled. ``shuffled``: False gives
    shards and samples in their order. Raises ValueError if there are fewer samples than ranks.
    """

    name = "balanced"
    at_end = "stop"

    def __init__(
        self,
        sources: Sequence[MixedSource],
        *,
        place: RankPlace,
        batch_size: int,
        seed: int,
        last: Last = "exact",
        most_lanes: int = LANES,
        together: bool = False,
        memory: int | None = None,
        length: int | None = None,
        shuffled: bool = True,
    ) -> None:
        self.sources = [
            MixedSource(tuple(each for each in source.shards if each[1]), source.weight, source.ends)
            for source in sources
        ]
        self.place, self.batch_size, self.last, self.shuffled = place, batch_size, last, shuffled
        self.together = together
        self.lane_bytes = max(1 << 20, (memory or _MEMORY) // 8 // most_lanes)
        self.seed, self.most_lanes = seed, most_lanes if shuffled else 1
        self.shards = sum(len(source.shards) for source in self.sources)
        whole = sum(source.weight for source in self.sources)
        self._rates = np.array([max(1, round(_WEIGHTS * each.weight / whole)) for each in self.sources], np.int64)
        self.length = self._length() if length is None else length
        ranks = place.world_size
        if self.length < ranks:
            raise ValueError(f"an epoch of {self.length:,} samples with all fields is too short for {ranks} ranks")
        self.lanes = max(1, min(self.most_lanes, self.shards))  # about; for messages and shares of memory
        self.num_batches = self.steps_left(0)
        whole_number_of = {"exact": 1, "even": ranks, "drop": ranks * batch_size}[last]
        self.num_samples = self.length // whole_number_of * whole_number_of
        self._dealt = lru_cache(maxsize=4 * len(self.sources))(self._deal)

    def shuffle(self, samples: int) -> Buffers | None:
        """Return the shuffle buffer of one lane, if those of all lanes together hold so many samples; None for 0."""
        own = -(-samples // self.lanes)
        return Buffers(samples=own, samples_initial=own) if samples and self.shuffled else None

    def urls(self, epoch: int, lane: int) -> Iterator[Shard]:
        """Yield the shards of a lane of the first source."""
        return self.lane_urls(epoch, Part(0, 0, lane, 0, 0))

    def lane_urls(self, epoch: int, part: Part) -> Iterator[Shard]:
        """Yield the shards of the lane that a part belongs to."""
        shards, _ = self._dealt(part.source, epoch, part.turn)
        yield from (url for url, _ in shards[part.lane])

    def lane_length(self, epoch: int, part: Part) -> int:
        """Return the samples of the lane that a part belongs to."""
        return int(self._dealt(part.source, epoch, part.turn)[1][part.lane])

    def first_pass(self, epoch: int) -> Iterator[Part]:
        """Yield all lanes of the first pass over each source, whole: the same on all ranks."""
        for source in range(len(self.sources)):
            for lane, length in enumerate(self._dealt(source, epoch, 0)[1].tolist()):
                yield Part(source, 0, lane, 0, length)

    def steps(self, epoch: int, start: int) -> Iterator[Step]:
        """Yield the steps of this rank from a position on."""
        rank, ranks = self.place
        while (size := self.next_size(start)) and (self.together or rank < size):
            taken = self._between(epoch, start, start + size)
            given = min(size, ranks)  # ranks that get samples of their own
            own = rank % given
            each, more = divmod(size, given)
            begin = own * each + min(own, more)
            parts = list(_slice(taken, begin, begin + each + (own < more)))
            yield Step(start, start + size, parts, rank >= given)
            start += size

    def steps_left(self, start: int) -> int:
        """Return the number of steps from a position to the end of the epoch."""
        full, left = self.place.world_size * self.batch_size, self._left(start)
        whole = max(0, (left - full - 1) // full)  # until at most two full steps are left
        count, start = whole, start + whole * full
        while (size := self.next_size(start)) and (self.together or self.place.rank < size):
            count, start = count + 1, start + size
        return count

    def _left(self, start: int) -> int:
        left = self.length - start
        return left // self.place.world_size * self.place.world_size if self.last == "even" else left

    def next_size(self, start: int) -> int:
        """Return the samples of the next step of all ranks; 0 at the end of the epoch."""
        ranks, left = self.place.world_size, self._left(start)
        full = ranks * self.batch_size
        if left > 2 * full or self.last == "drop":
            return full if left >= full else 0
        if left <= full:
            return left
        half = max(ranks, -(-left // 2))
        return -(-half // ranks) * ranks if self.last == "even" else half

    def _between(self, epoch: int, start: int, stop: int) -> list[Part]:
        """Return the samples ``start`` to ``stop`` of an epoch, side by side what is read side by side."""
        found: list[tuple[float, Part]] = []
        before, after = shares_of(self._rates, start), shares_of(self._rates, stop)
        for source, (first, end) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
            samples = self.sources[source].samples
            for turn in range(first // samples, -(-end // samples)):
                inside, until = max(0, first - turn * samples), min(samples, end - turn * samples)
                lengths = self._dealt(source, epoch, turn)[1]
                begins, ends = _of_lanes(lengths, inside), _of_lanes(lengths, until)
                for lane in np.flatnonzero(ends > begins).tolist():
                    at = int(begins[lane])
                    found.append(((lane + 0.5) / len(lengths), Part(source, turn, lane, at, int(ends[lane]) - at)))
        return [part for _, part in sorted(found)]

    def _length(self) -> int:
        """Return the samples of an epoch by the sources that end it."""
        if len(self.sources) == 1:
            return self.sources[0].samples
        ending = [number for number, source in enumerate(self.sources) if source.ends]
        lengths = []
        for number in ending or range(len(self.sources)):
            rate, samples = int(self._rates[number]), self.sources[number].samples
            # The last sample comes at (samples - 1/2) / rate; each source has given what comes until then.
            lengths.append(sum((int(r) * (2 * samples - 1) + rate) // (2 * rate) for r in self._rates))
        return min(lengths) if ending else max(lengths)

    def _deal(self, source: int, epoch: int, turn: int) -> tuple[list[list[tuple[Shard, int]]], Counts]:
        order = list(self.sources[source].shards)
        if self.shuffled:
            random.Random(f"{self.seed} {source} {epoch} {turn}").shuffle(order)
        lanes = min(self.most_lanes, len(order))
        dealt = [order[lane::lanes] for lane in range(lanes)]
        return dealt, np.array([sum(count for _, count in lane) for lane in dealt], np.int64)


def _of_lanes(lengths: Counts, first: int) -> Counts:
    return lengths if first >= int(lengths.sum()) else shares_of(lengths, first)


def _slice(parts: Sequence[Part], start: int, stop: int) -> Iterator[Part]:
    """Yield what lies between two places of parts in a row."""
    at = 0
    for part in parts:
        first, last = max(start - at, 0), min(stop - at, part.samples)
        if first < last:
            yield part._replace(first=part.first + first, samples=last - first)
        at += part.samples
