"""A lane: the samples of one stream, pass after pass, in a seeded order that can be resumed, through a shuffle buffer."""

import contextlib
import queue
import random
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from wdsflow.readers.open_clip.versions import Buffers, draw
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.streams import end_commands
from wdsflow.training.sample_tasks import LaneTask, SampleRef
from wdsflow.training.stalls.loss_tally import FeedLoss

from .sample_catalog import Catalog, Listed

T = TypeVar("T")

_BARREN = 20  # draws per shard; the chance that a shard is never drawn is 1 in 10**8
_AHEAD = 4  # one part in four of a lane's bytes is for reading ahead, the rest for shuffling
_IDLE = 1000  # skipped samples between two calls of ``idle``
_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zstd", ".lzma")
_MOST_WAITING = 4096  # items that were read ahead
_POLL = 0.2


def mixed(
    refs: Iterable[SampleRef], size: int, initial: int, rng: random.Random, most_bytes: int
) -> Iterator[SampleRef]:
    """Yield references in an order drawn by ``rng``; begin when the buffer is full or has ``initial``.

    The buffer is full at ``size`` references or about ``most_bytes`` bytes of content; local shards have none.
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
            drawn = draw(waiting, rng)
            held -= drawn.held
            yield drawn
            if held < most_bytes:
                break
    while waiting:
        yield draw(waiting, rng)


class LanePosition(NamedTuple):
    """The pass of a lane, and the number of its samples that are done."""

    turn: int = 0
    number: int = 0


class Lane:
    """Yields tasks in order.

    ``urls`` returns the shards of one pass. ``shuffle`` is None if samples stay in the order of the shards. Samples lost
    while listing go to ``lose``, except those before ``position`` and skipped ones, which are counted elsewhere.
    ``idle`` is called periodically during waiting or skipping, and may raise. Shards that cannot seek are read ahead.
    ``draws``: of a schedule without end, the shards that it draws from.
    """

    def __init__(
        self,
        number: int,
        urls: Callable[[], Iterator[Shard]],
        catalog: Catalog,
        *,
        epoch: int,
        seed: str,
        shuffle: Buffers | None,
        most_bytes: int,
        lose: Callable[[FeedLoss, int], None],
        idle: Callable[[], None],
        position: LanePosition,
        draws: int | None = None,
    ) -> None:
        self.number = number
        self.turn = position.turn  # the current pass
        self.begun = position.number  # samples of this pass that were done when the lane was resumed
        self.handed = 0  # samples of this pass so far
        self._urls, self._catalog, self._epoch, self._seed = urls, catalog, epoch, f"{seed} {number}"
        self._draws = draws
        self._shuffle, self._most_bytes, self._lose, self._idle = shuffle, most_bytes, lose, idle
        self._quiet = position.number > 0
        self._ahead: ReadAhead[Listed] | None = None
        self._refs = self._pass()
        try:
            self.skip(position.number)
        except BaseException:
            self.close()
            raise

    def next(self) -> LaneTask | None:
        """Return the next task; None at the end of a pass."""
        ref = next(self._refs, None)
        if ref is None:
            return None
        self.handed += 1
        return LaneTask(ref, self._sample_seed(ref), self.turn, self.handed - 1)

    def skip(self, count: int) -> None:
        """Pass over samples of this pass."""
        self._quiet = count > 0
        for _ in islice(self._refs, count):
            self.handed += 1
            if self.handed % _IDLE == 0:
                self._idle()
        self._quiet = False

    def turn_over(self) -> None:
        """Begin the next pass."""
        self.turn += 1
        self.begun = self.handed = 0
        self._refs = self._pass()

    def close(self) -> None:
        """Stop reading ahead; there are no more tasks."""
        if self._ahead is not None:
            self._ahead.close()

    def _pass(self) -> Iterator[SampleRef]:
        items: Iterator[Listed] = self._items()
        first = next(self._urls(), None)
        if first is not None and is_stream(first):  # begins at once, without waiting for the other lanes
            self._ahead = ReadAhead(self._items(), _weigh, self._most_bytes // _AHEAD, self._idle)
            items = iter(self._ahead)
        refs = self._counted(items)
        if self._shuffle is None:
            return refs
        rng = random.Random(f"{self._seed} {self._epoch} {self.turn}")
        most = self._most_bytes - self._most_bytes // _AHEAD
        return mixed(refs, self._shuffle.samples, self._shuffle.samples_initial, rng, most)

    def _counted(self, items: Iterator[Listed]) -> Iterator[SampleRef]:
        turn = self.turn
        for item in items:
            if isinstance(item, SampleRef):
                yield item
            elif not self._quiet:
                self._lose(item, turn)

    def _items(self) -> Generator[Listed, None, None]:
        barren = 0  # shards in a row without a sample: without a limit, an endless schedule would draw forever
        for url in self._urls():
            barren += 1
            for item in self._catalog.samples(url):
                if isinstance(item, SampleRef):
                    barren = 0
                yield item
            if self._draws is not None and barren > _BARREN * self._draws:
                return

    def _sample_seed(self, ref: SampleRef) -> int:
        name = ref.shard.rpartition("/")[2]  # without its folder: moved data draws the same
        text = f"{self._seed} {self._epoch} {self.turn} {name}\0{ref.key}"
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1  # torch takes 63 bits


def _weigh(item: Listed) -> int:
    return item.held if isinstance(item, SampleRef) else 0


def is_stream(url: Shard) -> bool:
    """Return whether a shard most likely cannot seek: a pipe, or a remote or compressed shard.

    >>> [is_stream(Shard.stored(url)) for url in ("a.tar", "a.tar.gz", "pipe:cat a.tar", "s3://bucket/a.tar")]
    [False, True, True, True]
    """
    return url.path is None or url.lower().endswith(_PACKED)


class _End(NamedTuple):
    error: BaseException | None


class ReadAhead(Generic[T]):
    """Iterates in a thread, at most ``most_bytes`` by ``weigh`` ahead of the caller, in order.

    While the caller waits, it calls ``idle`` periodically, which may raise. The thread closes ``items``.
    """

    def __init__(
        self, items: Generator[T, None, None], weigh: Callable[[T], int], most_bytes: int, idle: Callable[[], None]
    ) -> None:
        self._items, self._weigh, self._most, self._idle = items, weigh, most_bytes, idle
        self._ready: queue.Queue[T | _End] = queue.Queue(_MOST_WAITING)
        self._held = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="wdsflow-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                item = self._ready.get(timeout=_POLL)
            except queue.Empty:
                self._idle()
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            with self._changed:
                self._held -= self._weigh(item)
                self._changed.notify()
            yield item

    def close(self) -> None:
        """End the thread after its current read; kill a command that it waits for."""
        self._stop.set()
        end_commands(self._thread)

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    size = self._weigh(item)
                    with self._changed:
                        while self._held and self._held + size > self._most and not self._stop.is_set():
                            self._changed.wait(_POLL)
                        self._held += size
                    if not self._put(item):
                        return
        except BaseException as caught:  # noqa: BLE001 - raised where items are taken
            error = caught
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(item, timeout=_POLL)
                return True
        return False
