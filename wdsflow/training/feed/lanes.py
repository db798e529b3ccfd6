"""A lane: the samples of one stream, pass after pass, in a seeded order that can be resumed, through a shuffle buffer."""

import random
from collections.abc import Callable, Generator, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.training.sample_tasks import LaneTask
from wdsflow.training.stalls.loss_tally import FeedLoss

from ..sample_tasks import SampleRef
from .read_ahead import ReadAhead, is_stream
from .sample_catalog import Catalog, Listed
from .schedule import Schedule


def mixed(
    refs: Iterable[SampleRef], size: int, initial: int, rng: random.Random, most_bytes: int
) -> Iterator[SampleRef]:
    """Yield references in an order drawn by ``rng``.

    The buffer holds at most ``size`` of them, and about ``most_bytes`` bytes of content: references into local shards
    hold none. The first leaves when ``initial`` are there, or as many as fit.
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
            drawn = _draw(waiting, rng)
            held -= drawn.held
            yield drawn
            if held < most_bytes:
                break
    while waiting:
        yield _draw(waiting, rng)


def _draw(waiting: list[SampleRef], rng: random.Random) -> SampleRef:
    index = rng.randrange(len(waiting))
    waiting[index], waiting[-1] = waiting[-1], waiting[index]
    return waiting.pop()


_BARREN = 20  # times as many draws as there are shards; that one is not drawn by then has a chance of 1 in 10**8

_AHEAD = 4  # this part of a lane's bytes is for what is read ahead, the rest for shuffling
_IDLE = 1000  # samples between two looks at whether anybody waits for what is skipped


class LanePosition(NamedTuple):
    """How far a lane has come: the pass, and how many of its samples are done with."""

    turn: int = 0
    number: int = 0


class Lane:
    """Hands out tasks in order; ``None`` where the lane is at its end.

    ``shuffle`` is None where samples stay in the order of the shards. Samples that are lost while listing go to
    ``lose``, but not those before ``position``, which have been counted before. ``idle`` is called now and then while
    nothing comes of waiting or skipping, and may raise. What can only be read from front to back is read ahead.
    """

    def __init__(
        self,
        number: int,
        schedule: Schedule,
        catalog: Catalog,
        *,
        epoch: int,
        seed: str,
        shuffle: Buffers | None,
        most_bytes: int,
        lose: Callable[[FeedLoss, int], None],
        idle: Callable[[], None],
        position: LanePosition,
    ) -> None:
        self.number = number
        self.turn = position.turn  # pass that is handed out
        self.begun = position.number  # samples of this pass that were done with when the lane was taken up
        self.handed = 0  # samples of this pass so far
        self._schedule, self._catalog, self._epoch, self._seed = schedule, catalog, epoch, f"{seed} {number}"
        self._shuffle, self._most_bytes, self._lose, self._idle = shuffle, most_bytes, lose, idle
        self._quiet = position.number > 0
        self._ahead: ReadAhead[Listed] | None = None
        self._refs = self._pass()
        try:
            for _ in islice(self._refs, position.number):
                self.handed += 1
                if self.handed % _IDLE == 0:
                    idle()
        except BaseException:
            self.close()
            raise
        self._quiet = False

    def next(self) -> LaneTask | None:
        """Return the next task; None at the end of a pass."""
        ref = next(self._refs, None)
        if ref is None:
            return None
        self.handed += 1
        return LaneTask(ref, self._sample_seed(ref), self.turn, self.handed - 1)

    def turn_over(self) -> None:
        """Begin another pass."""
        self.turn += 1
        self.begun = self.handed = 0
        self._refs = self._pass()

    def close(self) -> None:
        """Stop reading ahead. Nothing can be taken any more."""
        if self._ahead is not None:
            self._ahead.close()

    def shards(self) -> Iterator[str]:
        """Yield the urls of the current pass."""
        return (piece.url for piece in self._schedule.pieces(self._epoch, self.number))

    def _pass(self) -> Iterator[SampleRef]:
        items: Iterator[Listed] = self._items()
        if is_stream(next(self.shards(), "")):  # begins at once: the other lanes are not waited for
            self._ahead = ReadAhead(self._items(), _weigh, self._most_bytes // _AHEAD, self._idle)
            items = iter(self._ahead)
        refs = self._heard(items)
        if self._shuffle is None:
            return refs
        rng = random.Random(f"{self._seed} {self._epoch} {self.turn}")
        most = self._most_bytes - self._most_bytes // _AHEAD
        return mixed(refs, self._shuffle.samples, self._shuffle.samples_initial, rng, most)

    def _heard(self, items: Iterator[Listed]) -> Iterator[SampleRef]:
        turn = self.turn
        for item in items:
            if isinstance(item, SampleRef):
                yield item
            elif not self._quiet:
                self._lose(item, turn)

    def _items(self) -> Generator[Listed, None, None]:
        barren = 0  # shards in a row without a sample: shards that are drawn forever would otherwise be drawn endlessly
        for piece in self._schedule.pieces(self._epoch, self.number):
            barren += 1
            for item in self._cut(self._catalog.samples(piece.url), piece.start, piece.stop):
                if isinstance(item, SampleRef):
                    barren = 0
                yield item
            if self._schedule.endless and barren > _BARREN * self._schedule.shards:
                return

    @staticmethod
    def _cut(items: Iterator[Listed], start: int, stop: int | None) -> Iterator[Listed]:
        """Yield a stretch of a shard; what is lost goes with the sample that it stands before."""
        if not start and stop is None:
            yield from items
            return
        number = 0
        for item in items:
            if stop is not None and number >= stop:
                return
            if number >= start:
                yield item
            number += isinstance(item, SampleRef)

    def _sample_seed(self, ref: SampleRef) -> int:
        name = ref.shard.rpartition("/")[2]  # not its folder: data that is moved, or mounted elsewhere, draws the same
        text = f"{self._seed} {self._epoch} {self.turn} {name}\0{ref.key}"
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1  # torch takes 63 bits


def _weigh(item: Listed) -> int:
    return item.held if isinstance(item, SampleRef) else 0
