"""The shards of a training run and their samples."""

import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from math import inf
from types import MappingProxyType
from typing import Any

from wdsflow.pieces.tar_view import ViewSource
from wdsflow.readers.open_clip.startup import weighted_urls
from wdsflow.records.unfinished import COUNTS
from wdsflow.shards.samples.grouping import ALL_SAMPLES, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk
from wdsflow.shards.urls import NoShards, PipeNotAllowed, absent, expand
from wdsflow.text.shell import command as join
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedError, FeedOptions, ShardsError
from wdsflow.training.sample_tasks import NO_IMAGE, Blob, Reading, SampleRef
from wdsflow.training.stalls.field_fixes import argument, pipe_fixes
from wdsflow.training.stalls.loss_tally import MISSING, NO_TAR, UNREADABLE, WRONG_CHECKSUM, Damage, FeedLoss, say

_KEPT = 200_000  # references held for later passes; a set that fits is listed once
_INSIDE_STREAM = 32 << 20  # larger members of streams cannot be read as a whole
_LARGEST_SIZES = 64 << 20  # bytes of sizes.json


Listed = SampleRef | FeedLoss
# The garbage collector traverses containers, but not plain tuples of numbers and strings: lists of references
# would stop training for a second.
_Row = FeedLoss | tuple[str | int, ...]


def _packed(ref: SampleRef) -> _Row:
    return ref.key, *ref.image[:3], *(value for blob in ref.texts for value in blob[:3])


def _unpacked(url: Shard, row: tuple[Any, ...]) -> SampleRef:
    texts = [Blob(*row[at : at + 3]) for at in range(4, len(row), 3)]
    return SampleRef(url, row[0], Blob(*row[1:4]), tuple(texts))


class _Wait:
    """The progress of listing a shard; ``since``: when the next sample was requested, None if it was not."""

    def __init__(self, url: Shard) -> None:
        self.url, self.samples, self.key = url, 0, ""
        self.since: float | None = time.monotonic()


class Catalog:
    """Lists the samples of shards: neighbouring members of one key, never across the end of a shard.

    ``images`` and ``texts`` are fields; the first image wins. A sample without either becomes a ``FeedLoss``, as one
    that lacks all of one group of ``needed``; without ``images`` or ``texts`` it needs none. ``everything``: all members
    are read. Damage of a shard goes to ``hurt``; samples after it are listed too. ``view`` returns the part of a shard
    that is read. ``expected``: how many samples shards must have; listing another number raises FeedError.
    """

    hurt: Callable[[Damage], None] | None = None
    expected: Mapping[str, int] = MappingProxyType({})
    view: Callable[[Shard, Source], Source] | None = None

    def __init__(
        self,
        images: tuple[str, ...],
        texts: tuple[str, ...],
        *,
        allow_pipe: bool,
        needed: Sequence[tuple[str, ...]] = (),
        everything: bool = False,
    ) -> None:
        self.images, self._texts, self._needed, self._allow_pipe = images, texts, needed, allow_pipe
        self._everything = everything
        self._read = tuple(dict.fromkeys((*texts, *chain.from_iterable(needed))))
        self._wanted = frozenset((*images, *self._read))
        self._cache: OrderedDict[tuple[str, int], list[_Row]] = OrderedDict()
        self._damage: dict[str, dict[str, Damage]] = {}  # of shards whose samples are in the cache
        self._held = 0
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()

    def samples(self, url: Shard) -> Iterator[Listed]:
        """Yield the samples of a shard lazily, in order. A shard that cannot be opened yields none."""
        return self._awaited(url, self._samples(url, contents=True))

    def outline(self, url: Shard) -> Iterator[Listed]:
        """Yield the samples of a shard as ``samples`` does, without contents: of a server only headers are requested."""
        return self._awaited(url, self._samples(url, contents=False))

    def damage(self, url: Shard) -> list[Damage]:
        """Return the damage of a shard that has been found so far."""
        return list(self._damage.get(url, {}).values())

    def sizes(self, shard: Shard) -> dict[str, int]:
        """Return the counts in ``sizes.json`` next to a shard on a server; none if there is no such file, or another one."""
        wait = _Wait(shard.beside(COUNTS[0]))
        self._waits.add(wait)
        try:
            with open_source(wait.url) as source:
                found = json.loads(source.read_at(0, _LARGEST_SIZES))
            return {name: count for name, count in found.items() if isinstance(count, int) and count >= 0}
        except (OSError, ValueError, AttributeError, RecursionError):
            return {}
        finally:
            self._waits.discard(wait)

    def reading(self, seconds: float) -> list[Reading]:
        """Return the shards whose next sample has been awaited for ``seconds``. Thread-safe."""
        now = time.monotonic()
        waits = [(wait, now - since) for wait in list(self._waits) if (since := wait.since) is not None]
        return [Reading(wait.url, waited, wait.samples, wait.key) for wait, waited in waits if waited >= seconds]

    def _awaited(self, url: Shard, samples: Iterator[Listed]) -> Iterator[Listed]:
        wait, expected = _Wait(url), self.expected.get(url)
        self._waits.add(wait)
        try:
            for item in samples:
                wait.since = None  # the caller's time does not count
                yield item
                wait.samples, wait.key, wait.since = wait.samples + 1, item.key, time.monotonic()
        finally:
            self._waits.discard(wait)
        if expected is not None and wait.samples != expected and url not in self._damage:
            raise _other_size(url, expected, wait.samples)

    def _samples(self, url: Shard, *, contents: bool) -> Iterator[Listed]:
        try:
            source = open_source(url, allow_pipe=self._allow_pipe)
        except OSError as error:
            self._unreadable(url, error)
            return
        with source:
            later = source.fd >= 0
            try:
                tar = source if self.view is None else self.view(url, source)
            except OSError as error:
                self._unreadable(url, error)
                return
            stamp = (url, source.length or 0)
            if later and (rows := self._cache.get(stamp)) is not None:
                with suppress(KeyError):  # evicted meanwhile
                    self._cache.move_to_end(stamp)
                for damage in self.damage(url):
                    self._report(damage)
                for row in rows:
                    yield row if isinstance(row, FeedLoss) else _unpacked(url, row)
                return
            listed: list[_Row] | None = [] if later else None
            for item in self._walk(url, tar, contents=contents and not later, later=later):
                if listed is not None:
                    listed.append(item if isinstance(item, FeedLoss) else _packed(item))
                    if len(listed) > _KEPT:
                        listed = None
                yield item
        if listed is None:
            return
        with self._lock:
            if stamp not in self._cache:
                self._cache[stamp] = listed
                self._held += len(listed) + 8
            while self._held > _KEPT:
                _, evicted = self._cache.popitem(last=False)
                self._held -= len(evicted) + 8

    def asked(self) -> list[str]:
        """Return in words what a sample must have."""
        found = ["an image"] * bool(self.images) + ["a caption"] * bool(self._texts)
        return found + [" or ".join(group) for group in self._needed] or ["a member"]

    def count(self, url: Shard) -> int:
        """Return how many samples of a shard have an image and a caption, judged by member names."""
        return sum(isinstance(item, SampleRef) for item in self.outline(url))

    def _walk(self, url: Shard, source: Source, *, contents: bool, later: bool) -> Iterator[Listed]:
        """Yield the samples; ``later``: with their places in the shard."""
        wanted, real = self._wanted, source.view.real if isinstance(source, ViewSource) else int
        walk = Walk(source, contents=contents)
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
            read = contents and (name in wanted or self._everything) and (source.random or size <= _INSIDE_STREAM)
            fields[name] = Blob(name, size, real(data) if later else -1, walk.read(row) if read else None)
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

    def _sample(self, url: Shard, key: str, fields: dict[str, Blob]) -> Listed:
        mark = fields.get("__bad__")
        if mark is not None and mark.size:
            return FeedLoss("select", "marked-bad", key, url)
        image = next((fields[name] for name in self.images if name in fields), None)
        lacks = [] if image is not None or not self.images else ["image"]
        if self._texts and not any(name in fields for name in self._texts):
            lacks.append("caption")
        lacks += [group[0] for group in self._needed if not any(name in fields for name in group)]
        if lacks:
            return FeedLoss("select", f"no-{'-or-'.join(lacks)}", key, url, ", ".join(sorted(fields)[:12]))
        read = fields if self._everything else [name for name in self._read if name in fields]
        return SampleRef(url, key, image or NO_IMAGE, tuple(fields[name] for name in read))

    def _unreadable(self, url: Shard, error: OSError) -> None:
        self._report(Damage(url, MISSING if getattr(error, "kind", "") == "missing" else UNREADABLE, str(error)))

    def _report(self, damage: Damage) -> None:
        self._damage.setdefault(damage.shard, {})[damage.what] = damage
        if self.hurt is not None:
            self.hurt(damage)


def _other_size(url: Shard, expected: int, found: int) -> FeedError:
    folder, _, name = url.rpartition("/")
    return FeedError(
        f"{escape(folder, 200)}/{COUNTS[0]} is wrong: {escape(name)} has {found:,} samples, not {expected:,}\n"
        f"To fix it, remove that file: samples are then counted. To see the shard: {join(['wdsflow', 'inspect', url])}"
    )


def shard_list(data: str | Sequence[str], options: FeedOptions) -> list[Shard]:
    """Return the shards that a training command or a feed names, in this order.

    Raises ShardsError if a pattern matches nothing, cannot be expanded, or is a command that ``options`` do not allow;
    warns of single shards that are missing.
    """
    try:
        found = expand(data, allow_pipe=options.allow_pipe).urls
        missing = list(absent([url for url in found if url.path is not None]))
        if missing and len(missing) == len(found):
            raise NoShards(missing[0], f"no such file: {os.path.abspath(missing[0])}")
    except PipeNotAllowed as error:
        raise ShardsError("\n  ".join([f"{error}:", *pipe_fixes(options)])) from None
    except NoShards as error:
        raise ShardsError(f"{error}{error.hint and f': {error.hint}'}") from None
    if missing:
        number = f"{len(missing):,} of {how_many(len(found), 'shard')}"
        say(logging.WARNING, f"feed: {number} not there, first: {escape(missing[0], 200)}")
    return found


def weighted_list(
    data: str | Sequence[str],
    factors: str | Sequence[str | float] | float | None,
    options: FeedOptions,
    *,
    resampled: bool,
) -> tuple[list[Shard], list[float] | None]:
    """Return shards, and their weights if ``train_data_upsampling_factors`` are given.

    Raises ValueError unless shards are drawn, and each source has a factor; their sum must be above 0.
    """
    if factors is None:
        return shard_list(data, options), None
    name, drawn = argument(options, "train_data_upsampling_factors"), argument(options, "dataset_resampled")
    if not resampled:
        set_it = f"add {drawn}" if options.argv else f"set {drawn} = True"
        raise ValueError(f"{name} is given without {drawn}: only shards that are drawn have weights; {set_it}")
    sources, each = _parts(data), [factors] if isinstance(factors, float | int) else _parts(factors)
    if len(each) != len(sources):
        raise ValueError(
            f"{name} has {how_many(len(each), 'factor')} for {how_many(len(sources), 'source')} in "
            f"{argument(options, 'train_data')}: give one for each part between '::'"
        )
    try:
        weights = [float(factor) for factor in each]
    except (TypeError, ValueError):
        weights = []
    if not 0 < sum(weights) < inf:
        raise ValueError(f"{name} is {factors!r}; it must be numbers with a sum above 0")
    return weighted_urls(sources, weights, partial(shard_list, options=options))


def _parts(value: str | Sequence[str | float]) -> list[Any]:
    return value.split("::") if isinstance(value, str) else list(value)
