"""A schedule that gives each sample once an epoch, and each rank the same number of batches."""

import random
from collections.abc import Iterator, Sequence

from wdsflow.training.rank_place import RankPlace

from .schedule import Schedule, ShardPiece


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
