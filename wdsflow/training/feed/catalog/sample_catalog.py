"""The samples of shards: a reference to each, lost samples with reasons, and hanging shards."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.records.shard_counts import COUNTS
from wdsflow.shards.cache.shard_cache import ShardCache
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import command as join
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedError
from wdsflow.training.sample_tasks import HangingShard, SampleRef
from wdsflow.training.stalls.loss_tally import MISSING, UNREADABLE, Damage

from .listing import Listed, RequiredMembers, list_samples
from .listing_cache import ListingCache

# Bytes of sizes.json.
_LARGEST_SIZES = 64 << 20


class Catalog:
    """Lists the samples of shards: neighbouring members of one key.

    A sample never crosses the end of a shard.

    A sample that lacks what it needs becomes a ``FeedLoss``. Damage of a shard goes to
    ``on_damage``; samples after it are listed too. ``view`` returns the part of a shard that is
    read. ``expected``: how many samples shards must have; listing another number raises FeedError.
    ``cache``: keeps shards of servers.

    Args:
        images: fields; the first one wins. Without them a sample needs no image.
        texts: fields of captions; likewise.
        allow_pipe: run the commands of ``pipe:`` urls.
        needed: groups of fields; a sample needs one of each.
        everything: read all members.
        join: gives samples fields of a table.
    """

    on_damage: Callable[[Damage], None] | None = None
    expected: Mapping[str, int] = MappingProxyType({})
    view: Callable[[Shard, Source], Source] | None = None
    cache: ShardCache | None = None

    def __init__(
        self,
        images: tuple[str, ...],
        texts: tuple[str, ...],
        *,
        allow_pipe: bool,
        needed: Sequence[tuple[str, ...]] = (),
        everything: bool = False,
        join: JoinedFields | None = None,
    ) -> None:
        self.join = join
        self._required = RequiredMembers(images, texts, needed, everything=everything, join=join)
        self._allow_pipe = allow_pipe
        self._cache = ListingCache()
        # By shard and kind.
        self._damage: dict[str, dict[str, Damage]] = {}
        self._waits: set[_Wait] = set()

    def samples(self, shard: Shard) -> Iterator[Listed]:
        """Yield the samples of a shard lazily, in order.

        A shard that cannot be opened yields none.
        """
        return self._awaited(shard, self._samples(shard, contents=True))

    def samples_without_content(self, shard: Shard) -> Iterator[Listed]:
        """Yield the samples of a shard as ``samples`` does, without contents.

        From a server, only headers are requested.
        """
        return self._awaited(shard, self._samples(shard, contents=False))

    def count(self, shard: Shard) -> int:
        """Return how many samples of a shard have an image and a caption.

        This is judged by member names.
        """
        count = sum(isinstance(item, SampleRef) for item in self.samples_without_content(shard))
        if self.join is not None and self.join.use is not None:
            self.join.use.add(shard)
        return count

    def forget_listings(self) -> None:
        """Forget the samples that were listed: other ones get rows of the table now."""
        self._cache = ListingCache()

    def requirements(self) -> list[str]:
        """Return in words what a sample must have."""
        return self._required.requirements()

    def damage(self, shard: Shard) -> list[Damage]:
        """Return the damage of a shard that has been found so far."""
        return list(self._damage.get(shard, {}).values())

    def stored_counts(self, shard: Shard) -> dict[str, int]:
        """Return the counts in ``sizes.json`` next to a shard on a server.

        Empty if there is no such file, or if it has another content.
        """
        wait = _Wait(shard.sibling(COUNTS[0]))
        self._waits.add(wait)
        try:
            with open_source(wait.shard) as source:
                counts = json.loads(source.read_at(0, _LARGEST_SIZES))
            return {
                name: count
                for name, count in counts.items()
                if isinstance(count, int) and count >= 0
            }
        except (OSError, ValueError, AttributeError, RecursionError):
            return {}
        finally:
            self._waits.discard(wait)

    def hanging_shards(self, seconds: float) -> list[HangingShard]:
        """Return the shards whose next sample has been awaited for ``seconds``. Thread-safe."""
        now = time.monotonic()
        hanging = []
        for wait in list(self._waits):
            since = wait.since
            if since is not None and now - since >= seconds:
                hanging.append(HangingShard(wait.shard, now - since, wait.samples, wait.key))
        return hanging

    def _awaited(self, shard: Shard, samples: Iterator[Listed]) -> Iterator[Listed]:
        wait = _Wait(shard)
        expected = self.expected.get(shard)
        self._waits.add(wait)
        try:
            for item in samples:
                # The caller's time does not count.
                wait.since = None
                yield item
                wait.samples += 1
                wait.key = item.key
                wait.since = time.monotonic()
        finally:
            self._waits.discard(wait)
        if expected is not None and wait.samples != expected and shard not in self._damage:
            raise _other_size(shard, expected, wait.samples)

    def _samples(self, shard: Shard, *, contents: bool) -> Iterator[Listed]:
        try:
            source = self._open(shard, contents=contents)
        except OSError as error:
            self._unreadable(shard, error)
            return
        with source:
            try:
                part = source if self.view is None else self.view(shard, source)
            except OSError as error:
                self._unreadable(shard, error)
                return
            # Members of a file on this machine are read when their sample is made.
            stored_at = source.stored_at
            length = source.length or 0
            if source.fd < 0 and not stored_at:
                if contents and source.stored_later_at:
                    yield from self._listed_for_later(shard, part, length, source.stored_later_at)
                else:
                    yield from self._listed(shard, part, contents=contents, later=False)
                return
            cached = self._cache.get(shard, length, stored_at)
            if cached is None:
                listed = self._listed(shard, part, contents=False, later=True)
                if stored_at:
                    listed = _stored_at(stored_at, listed)
                yield from self._cache.storing(shard, length, stored_at, listed)
                return
            for damage in self.damage(shard):
                self._report(damage)
            yield from cached

    def _listed_for_later(
        self, shard: Shard, part: Source, length: int, stored_at: str
    ) -> Iterator[Listed]:
        """Yield samples with contents, and store their positions for later.

        The positions are used once the shard is a file on this machine.
        """
        listed = self._listed(shard, part, contents=True, later=True)
        # Another read may find what an error of the server hid.
        kept = self._cache.storing(
            shard, length, stored_at, listed, are_all=lambda: not self.damage(shard)
        )
        for item in kept:
            yield _without_locations(item) if isinstance(item, SampleRef) else item

    def _open(self, shard: Shard, *, contents: bool) -> Source:
        if self.cache is None:
            return open_source(shard, allow_pipe=self._allow_pipe)
        # Of headers alone nothing is kept.
        opened = self.cache.open if contents else self.cache.open_without_storing
        return opened(shard, allow_pipe=self._allow_pipe)

    def _listed(
        self, shard: Shard, source: Source, *, contents: bool, later: bool
    ) -> Iterator[Listed]:
        """Yield the samples, and report the damage."""
        for item in list_samples(shard, source, self._required, contents=contents, later=later):
            if isinstance(item, Damage):
                self._report(item)
            else:
                yield item

    def _unreadable(self, shard: Shard, error: OSError) -> None:
        kind = MISSING if getattr(error, "kind", "") == "missing" else UNREADABLE
        self._report(Damage(shard, kind, str(error)))

    def _report(self, damage: Damage) -> None:
        self._damage.setdefault(damage.shard, {})[damage.what] = damage
        if self.on_damage is not None:
            self.on_damage(damage)


class _Wait:
    """The progress of listing a shard.

    ``since``: when the next sample was requested, None if none is.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.samples = 0
        self.key = ""
        self.since: float | None = time.monotonic()


def _stored_at(file: str, samples: Iterator[Listed]) -> Iterator[Listed]:
    """Yield the samples of a shard with the path of the file that has its bytes."""
    for sample in samples:
        yield sample._replace(stored_at=file) if isinstance(sample, SampleRef) else sample


def _without_locations(ref: SampleRef) -> SampleRef:
    """Return a sample that cannot be read later."""
    texts = tuple(blob._replace(at=-1) for blob in ref.texts)
    return ref._replace(image=ref.image._replace(at=-1), texts=texts)


def _other_size(shard: Shard, expected: int, samples: int) -> FeedError:
    folder, _, name = shard.rpartition("/")
    return FeedError(
        f"{escape(folder, 200)}/{COUNTS[0]} is wrong: {escape(name)} has {how_many(samples, 'sample')}, not {expected:,}\n"
        f"To fix it, remove that file: samples are then counted. To see the shard: {join(['wdsflow', 'inspect', shard])}"
    )
