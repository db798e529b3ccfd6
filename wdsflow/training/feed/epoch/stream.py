"""A stream: the samples of some shards in a seeded order, shuffled in a buffer, in rounds."""

import random
from collections.abc import Callable, Generator, Iterable, Iterator
from hashlib import blake2b
from itertools import islice

from wdsflow.readers.open_clip.versions import Buffers, pop_random
from wdsflow.shards.shard import Shard
from wdsflow.training.feed.catalog.listing import Listed
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.sample_tasks import SampleRef, StreamKey, Task
from wdsflow.training.stalls.loss_tally import FeedLoss

from .read_ahead import ReadAhead

# Draws for each shard; the chance that a shard is never drawn is 1 in 10**8.
_MOST_DRAWS = 20
# One part in four of a stream's bytes is for reading ahead, the rest for shuffling.
_AHEAD = 4
# Bytes of a sample that is read ahead, besides its content.
_REFERENCE = 1 << 10
# Skipped samples between two calls of ``idle``.
_IDLE = 1000
_COMPRESSED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zstd", ".lzma")


class Stream:
    """Yields tasks in order.

    Args:
        key: names it.
        shards: returns the shards of one round.
        catalog: lists the samples of a shard.
        epoch: its number.
        seed: of the shuffle buffer and of the samples, with the numbers of stream, epoch and round.
        shuffle: sizes of the buffer; None leaves samples in the order of the shards.
        most_bytes: limit of raw content in the buffer and read ahead. Only shards that cannot seek
            have such content; they are read ahead.
        lose: called with each sample that is lost while listing and with its round, except those
            that are skipped.
        idle: called periodically during waiting or skipping; may raise.
        first_round: the number of the first round.
        draws: of an order whose shards never end, the number of shards that it draws from.
    """

    def __init__(
        self,
        key: StreamKey,
        shards: Callable[[], Iterator[Shard]],
        catalog: Catalog,
        *,
        epoch: int,
        seed: str,
        shuffle: Buffers | None,
        most_bytes: int,
        lose: Callable[[FeedLoss, int], None],
        idle: Callable[[], None],
        first_round: int,
        draws: int | None = None,
    ) -> None:
        self.key = key
        self.round = first_round
        # Samples of this round so far, skipped ones included.
        self.drawn = 0
        self._shards, self._catalog, self._epoch, self._draws = shards, catalog, epoch, draws
        self._seed = f"{seed} {key.number}"
        self._shuffle, self._most_bytes, self._lose, self._idle = shuffle, most_bytes, lose, idle
        self._skips = False
        self._ahead: ReadAhead[Listed] | None = None
        self._begin_round()

    def next(self) -> Task | None:
        """Return the next task; None at the end of a round."""
        ref = next(self._refs, None)
        if ref is None:
            return None
        number = self.drawn
        self.drawn += 1
        return Task(ref, self._sample_seed(ref), self.key, self.round, number)

    def skip_to(self, number: int) -> None:
        """Skip the samples of this round before ``number``.

        They were given before, or belong to other ranks.
        """
        count = number - self.drawn
        if count <= 0:
            return
        self._skips = True
        for _ in islice(self._refs, count):
            self.drawn += 1
            if self.drawn % _IDLE == 0:
                self._idle()
        self._skips = False

    def restart(self) -> None:
        """Begin the next round."""
        self.round += 1
        self.drawn = 0
        self._begin_round()

    def close(self) -> None:
        """Stop reading ahead; there are no more tasks."""
        if self._ahead is not None:
            self._ahead.close()

    def abandon(self) -> None:
        """Stop reading ahead soon. Takes no lock."""
        if self._ahead is not None:
            self._ahead.abandon()

    def _begin_round(self) -> None:
        self._refs = self._shuffled(self._counted(self._listed()))
        # The beginning of all texts that samples of this round draw their seeds from.
        self._round_digest = blake2b(
            f"{self._seed} {self._epoch} {self.round} ".encode(), digest_size=8
        )

    def _listed(self) -> Iterator[Listed]:
        first = next(self._shards(), None)
        if first is None or not cannot_seek(first):
            return self._items()
        # It begins at once, without waiting for the other streams.
        self._ahead = ReadAhead(self._items(), _weigh, self._most_bytes // _AHEAD, self._idle)
        return iter(self._ahead)

    def _counted(self, items: Iterator[Listed]) -> Iterator[SampleRef]:
        of_round = self.round
        for item in items:
            if isinstance(item, SampleRef):
                yield item
            elif not self._skips:
                self._lose(item, of_round)

    def _shuffled(self, refs: Iterator[SampleRef]) -> Iterator[SampleRef]:
        if self._shuffle is None:
            return refs
        rng = random.Random(f"{self._seed} {self._epoch} {self.round}")
        most_bytes = self._most_bytes - self._most_bytes // _AHEAD
        return shuffle_references(
            refs, self._shuffle.samples, self._shuffle.samples_initial, rng, most_bytes
        )

    def _items(self) -> Generator[Listed, None, None]:
        # Shards in a row without a sample. Without a limit, an endless order would draw forever.
        barren = 0
        for shard in self._shards():
            barren += 1
            for item in self._catalog.samples(shard):
                if isinstance(item, SampleRef):
                    barren = 0
                yield item
            if self._draws is not None and barren > _MOST_DRAWS * self._draws:
                return

    def _sample_seed(self, ref: SampleRef) -> int:
        # Without its folder: moved data draws the same.
        name = ref.shard.rpartition("/")[2]
        digest = self._round_digest.copy()
        digest.update(f"{name}\0{ref.key}".encode(errors="surrogatepass"))
        # torch takes 63 bits.
        return int.from_bytes(digest.digest(), "big") >> 1


def shuffle_references(
    refs: Iterable[SampleRef], size: int, initial: int, rng: random.Random, most_bytes: int
) -> Iterator[SampleRef]:
    """Yield references from a shuffle buffer, in an order drawn by ``rng``.

    The first comes when the buffer is full or has ``initial`` references.

    The buffer is full at ``size`` references or about ``most_bytes`` bytes of content; local shards
    have none.
    """
    waiting: list[SampleRef] = []
    held = 0
    enough = min(initial, size)
    arriving = iter(refs)
    for ref in arriving:
        waiting.append(ref)
        held += ref.held
        if len(waiting) < size and held < most_bytes:
            more = next(arriving, None)
            if more is not None:
                waiting.append(more)
                held += more.held
        while len(waiting) >= enough or held >= most_bytes:
            drawn = pop_random(waiting, rng)
            held -= drawn.held
            yield drawn
            if held < most_bytes:
                break
    while waiting:
        yield pop_random(waiting, rng)


def cannot_seek(shard: Shard) -> bool:
    """Return whether a shard most likely cannot seek: a pipe, or a remote or compressed shard.

    >>> [cannot_seek(Shard.from_text(url)) for url in ("a.tar", "a.tar.gz", "pipe:cat a.tar", "s3://bucket/a.tar")]
    [False, True, True, True]
    """
    return shard.path is None or shard.lower().endswith(_COMPRESSED)


def _weigh(item: Listed) -> int:
    return _REFERENCE + (item.held if isinstance(item, SampleRef) else 0)
