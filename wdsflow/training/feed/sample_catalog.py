"""What is in the shards: one reference a sample, without reading contents where they can be read later."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from wdsflow.pieces.tar_view import ViewSource
from wdsflow.shards.samples.grouping import ALL_SAMPLES, grouped
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk
from wdsflow.training.sample_tasks import Blob, Reading, SampleRef
from wdsflow.training.stalls.loss_tally import MISSING, NO_TAR, UNREADABLE, WRONG_CHECKSUM, Damage, FeedLoss

_KEPT = 200_000  # references held for later passes; a set that fits is listed once
_INSIDE_STREAM = 32 << 20  # larger members of streams cannot be had as a whole


Listed = SampleRef | FeedLoss


# The collector of garbage looks through all objects that hold others now and then, but not through plain tuples of
# numbers and strings: lists of references would make training wait for a second.
_Row = FeedLoss | tuple[str | int, ...]


def _packed(ref: SampleRef) -> _Row:
    return ref.key, *ref.image[:3], *(value for blob in ref.texts for value in blob[:3])


def _unpacked(url: str, row: tuple[Any, ...]) -> SampleRef:
    texts = [Blob(*row[at : at + 3]) for at in range(4, len(row), 3)]
    return SampleRef(url, row[0], Blob(*row[1:4]), tuple(texts))


class _Wait:
    """What came of a shard so far; ``since`` is None while nothing is asked of it."""

    def __init__(self, url: str) -> None:
        self.url, self.samples, self.key = url, 0, ""
        self.since: float | None = time.monotonic()


class Catalog:
    """Lists the samples of shards: neighbouring members of one key, never across the end of a shard.

    ``images`` and ``texts`` are fields; the first image wins. A sample that lacks either comes as a ``FeedLoss``. What
    is wrong with a shard itself goes to ``hurt``. What is after damage is listed too; readers that stop there lose it.
    With ``view``, which returns the part of a shard to read, only samples in that part are listed.
    """

    hurt: Callable[[Damage], None] | None = None
    view: Callable[[str, Source], Source] | None = None

    def __init__(self, images: tuple[str, ...], texts: tuple[str, ...], *, allow_pipe: bool) -> None:
        self.images, self._texts, self._allow_pipe = images, texts, allow_pipe
        self._wanted = frozenset((*images, *texts))
        self._cache: OrderedDict[tuple[str, int], list[_Row]] = OrderedDict()
        self._damage: dict[str, dict[str, Damage]] = {}  # of shards whose samples are in the cache
        self._held = 0
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()

    def samples(self, url: str) -> Iterator[Listed]:
        """Yield the samples of a shard, in its order, lazily. A shard that cannot be opened yields none."""
        wait = _Wait(url)
        self._waits.add(wait)
        try:
            for item in self._samples(url):
                wait.since = None  # whoever takes the samples may take their time
                yield item
                wait.samples, wait.key, wait.since = wait.samples + 1, item.key, time.monotonic()
        finally:
            self._waits.discard(wait)

    def reading(self, seconds: float) -> list[Reading]:
        """Return the shards that have given nothing for so long, though more was asked for. For any thread."""
        now = time.monotonic()
        waits = [(wait, now - since) for wait in list(self._waits) if (since := wait.since) is not None]
        return [Reading(wait.url, waited, wait.samples, wait.key) for wait, waited in waits if waited >= seconds]

    def _samples(self, url: str) -> Iterator[Listed]:
        try:
            source = open_source(url, allow_pipe=self._allow_pipe)
        except (SourceError, OSError) as error:
            missing = isinstance(error, SourceError) and error.kind == "missing"
            self._report(Damage(url, MISSING if missing else UNREADABLE, str(error)))
            return
        with source:
            later = source.fd >= 0
            try:
                tar = source if self.view is None else self.view(url, source)
            except (SourceError, OSError) as error:
                self._report(Damage(url, UNREADABLE, str(error)))
                return
            stamp = (url, source.length or 0)
            if later and stamp in self._cache:
                self._cache.move_to_end(stamp)
                for damage in list(self._damage.get(url, {}).values()):
                    self._report(damage)
                for row in self._cache[stamp]:
                    yield row if isinstance(row, FeedLoss) else _unpacked(url, row)
                return
            listed: list[_Row] | None = [] if later else None
            for item in self._walk(url, tar, later=later):
                if listed is not None:
                    listed.append(item if isinstance(item, FeedLoss) else _packed(item))
                    if len(listed) > _KEPT:
                        listed = None
                yield item
        if listed is not None:
            self._keep(stamp, listed)

    def count(self, url: str) -> int:
        """Return how many samples of a shard have an image and a caption, by the names of their members."""
        return sum(isinstance(item, SampleRef) for item in self.samples(url))

    def _keep(self, stamp: tuple[str, int], listed: list[_Row]) -> None:
        with self._lock:
            if stamp not in self._cache:
                self._cache[stamp] = listed
                self._held += len(listed) + 8
            while self._held > _KEPT:
                _, gone = self._cache.popitem(last=False)
                self._held -= len(gone) + 8

    def _walk(self, url: str, source: Source, *, later: bool) -> Iterator[Listed]:
        wanted, real = self._wanted, source.view.real if isinstance(source, ViewSource) else int
        walk = Walk(source, contents=not later)
        latest: str | None = None
        fields: dict[str, Blob] = {}
        for begins, key, suffix, row in grouped(walk, ALL_SAMPLES):
            if begins:
                if latest is not None:
                    yield self._sample(url, latest, fields)
                latest, fields = key, {}
            _, size, data, _, kind = row
            if kind == "sparse":
                continue
            name = suffix.lower()
            if later or name not in wanted:
                fields[name] = Blob(name, size, real(data) if later else -1)
            else:
                small = source.random or size <= _INSIDE_STREAM
                fields[name] = Blob(name, size, -1, walk.read(row) if small else None)
        if latest is not None:
            yield self._sample(url, latest, fields)
        stop, distrusted = walk.stop, walk.seen.get("tar.damaged-stream")
        if distrusted is not None:
            self._report(Damage(url, WRONG_CHECKSUM, distrusted.detail))
        elif stop is not None and stop.kind == "unreadable":
            self._report(Damage(url, NO_TAR, stop.detail))
        elif stop is not None and stop.kind != "end":
            what = "no-end-mark" if stop.kind == "eof" and not source.cut else "cut"
            self._report(Damage(url, what, f"{stop.detail} at byte {stop.offset:,}"))

    def _sample(self, url: str, key: str, fields: dict[str, Blob]) -> Listed:
        image = next((fields[name] for name in self.images if name in fields), None)
        texts = tuple(fields[name] for name in self._texts if name in fields)
        mark = fields.get("__bad__")
        if mark is not None and mark.size:
            return FeedLoss("select", "marked-bad", key, url)
        if image is not None and texts:
            return SampleRef(url, key, image, texts)
        reason = "no-caption" if image is not None else "no-image" if texts else "no-image-or-caption"
        return FeedLoss("select", reason, key, url, ", ".join(sorted(fields)[:12]))

    def _report(self, damage: Damage) -> None:
        self._damage.setdefault(damage.shard, {})[damage.what] = damage
        if self.hurt is not None:
            self.hurt(damage)
