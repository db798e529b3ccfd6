"""Real samples of each shape, the samples most likely to fail, and tiny tars with one sample each."""

import os
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wdsflow.scan.evidence import Run, Runs, ScanOptions, Shape, ShapeCount, ShardEvidence, Tally
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.source.base import Source, SourceError, SourcePart
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, number, padded
from wdsflow.shards.tar.walk import Member, Walk

END = bytes(1024)
MOST_BYTES = 64 << 20  # of a sample, or of the damaged rest of a shard
_MOST_PLACES = 4096  # of one shape


class SamplePlace(NamedTuple):
    """The place of a sample."""

    shard: str
    offset: int  # of its first header
    key: str


@dataclass(slots=True)
class ShapeGroup:
    """All samples of one shape, in all shards."""

    shape: Shape
    count: int = 0
    places: dict[SamplePlace, None] = field(default_factory=dict)  # of some samples, each shard's first one in front

    def add(self, url: str, run: Run | ShapeCount) -> None:
        """Add the place of a sample."""
        if len(self.places) < _MOST_PLACES:
            self.places[SamplePlace(url, run.offset, run.key)] = None


def shape_groups(shards: Sequence[ShardEvidence]) -> list[ShapeGroup]:
    """Return the shapes of all readable shards, the most frequent first."""
    groups: dict[Shape, ShapeGroup] = {}
    for shard in shards:
        for item in shard.runs.counted():
            group = groups.setdefault(item.shape, ShapeGroup(item.shape))
            group.count += item.count
            group.add(shard.url, item)
    return sorted(groups.values(), key=lambda group: -group.count)


def leave_out(shards: Iterable[ShardEvidence], groups: Iterable[ShapeGroup]) -> None:
    """Remove the samples of some shards from the groups."""
    known, urls = {group.shape: group for group in groups}, {shard.url for shard in shards}
    for shard in shards:
        for item in shard.runs.counted():
            if item.shape in known:
                known[item.shape].count -= item.count
    for group in known.values():
        group.places = {place: None for place in group.places if place.shard not in urls}


class _RunList(RunCollector):
    """A collector that also keeps every run in a list."""

    def __init__(self, found: list[Run]) -> None:
        super().__init__()
        self.found = found

    def close(self) -> None:
        """Note the open run."""
        if self.key is not None:
            self.found.append(Run(self.key, self.offset, tuple(self.parts)))
        super().close()

    def runs(self) -> Runs:
        """Note the last run."""
        self.close()
        return super().runs()


def add_places(groups: Sequence[ShapeGroup], shards: Sequence[ShardEvidence], options: ScanOptions, most: int) -> None:
    """Add more places, from shards all over the set, until they hold ``most`` samples; shuffled within a shape."""
    known = {group.shape: group for group in groups}
    rng = random.Random(0)
    readable = [shard for shard in shards if shard.error is None]
    listed = 0
    for shard in rng.sample(readable, len(readable)):
        if listed >= most:
            break
        found: list[Run] = []
        scan_shard(shard.url, options, lambda found=found: _RunList(found))  # type: ignore[misc]
        listed += len(found)
        for run in found:
            if run.shape in known:
                known[run.shape].add(shard.url, run)
    for group in groups:
        places = list(group.places)
        rng.shuffle(places)
        group.places = dict.fromkeys(places)


class TinyTars:
    """Finds samples of shards, and writes tars of a few of them into a folder."""

    def __init__(self, folder: Path, *, allow_pipe: bool) -> None:
        self._folder, self._allow_pipe = folder, allow_pipe
        self._places: dict[str, list[SamplePlace]] = {}  # by shard
        self._data: dict[SamplePlace, bytes | None] = {}
        self._written = 0

    def places_in(self, url: str) -> list[SamplePlace]:
        """Return all samples of a shard in order, up to the place where readers stop; none if unreadable."""
        if url not in self._places:
            found = self._places[url] = []
            with suppress(SourceError), open_source(url, allow_pipe=self._allow_pipe) as source:
                for begins, key, _, row in grouped(Walk(source)):
                    if begins:
                        found.append(SamplePlace(url, row[3], key))
        return self._places[url]

    def first_in(self, url: str, most: int) -> list[SamplePlace]:
        """Return the first samples of a shard, without a read of the others; none if unreadable."""
        if url in self._places:
            return self._places[url][:most]
        with suppress(SourceError), open_source(url, allow_pipe=self._allow_pipe) as source:
            starts = (SamplePlace(url, row[3], key) for begins, key, _, row in grouped(Walk(source)) if begins)
            return list(islice(starts, most))
        return []

    def place_of(self, url: str, offset: int) -> SamplePlace | None:
        """Return the sample to which a member at an offset belongs."""
        places = self.places_in(url)
        after = bisect_right(places, offset, key=lambda place: place.offset)
        return places[after - 1] if after else None

    def read(self, places: Iterable[SamplePlace]) -> None:
        """Read samples; a shard is opened once."""
        wanted: dict[str, list[SamplePlace]] = {}
        for place in places:
            if place not in self._data:
                wanted.setdefault(place.shard, []).append(place)
        for url, some in wanted.items():
            self._data.update(dict.fromkeys(some))
            left = sorted(some, key=lambda each: each.offset)
            while left:
                try:
                    with open_source(url, allow_pipe=self._allow_pipe) as source:
                        while left:
                            place = left.pop(0)
                            self._data[place] = _run_bytes(source, place.offset)
                            if not source.random:
                                break  # the walk has read past the next one
                except SourceError:
                    continue

    def tar(self, *places: SamplePlace) -> str | None:
        """Return the path of a tar with these samples; None if one of them cannot be read."""
        self.read(places)
        pieces = [data for place in places if (data := self._data[place]) is not None]
        return self.write(b"".join(pieces) + END, places[0].shard) if len(pieces) == len(places) else None

    def rest(self, shard: ShardEvidence) -> str | None:
        """Return the path of a tar with the end of a shard, from its last sample on; None if too long."""
        last = shard.runs.last
        start = last.offset if last is not None else 0
        try:
            with open_source(shard.url, allow_pipe=self._allow_pipe) as source:
                if source.compression is not None or source.length is None or source.length - start > MOST_BYTES:
                    return None
                before = _global_headers(source) if start else b""
                return self.write(before + source.read_at(start, source.length - start), shard.url)
        except SourceError:
            return None

    def write(self, data: bytes, like: str) -> str:
        """Write a tar into its own folder, under the name of its shard."""
        folder = self._folder / f"{self._written:05d}"
        self._written += 1
        folder.mkdir()
        name = os.path.basename(like.partition("?")[0]).partition(".tar")[0] or "shard"
        path = folder / f"{name[:100]}.tar"
        path.write_bytes(data)
        return str(path)


def _global_headers(source: Source) -> bytes:
    """Return the extended headers at the beginning of a tar that hold for all members, as ``git archive`` writes one."""
    end = 0
    while (block := source.read_at(end, BLOCK))[156:157] == b"g":
        try:
            end += BLOCK + padded(number(block[124:136]))
        except BadHeader:
            break
    return source.read_at(0, end) if 0 < end <= MOST_BYTES else b""


def _run_bytes(source: Source, start: int) -> bytes | None:
    """Return the unchanged bytes of the members that share the key of the first."""
    part = SourcePart(source, start, _global_headers(source))
    end = 0
    for begins, _, _, row in grouped(Walk(part)):
        if end and (begins or row[3] > MOST_BYTES):
            end = row[3]
            break
        end = Member(*row).end
    return part.read_at(0, end) if 0 < end <= MOST_BYTES else None


_EACH = 3  # samples of one kind, from as many shards
_RARE = 0.02  # a kind with more than this share of all samples is found by random probes
_NO_CONTENTS = ("tar.", "name.")


def rare_samples(
    shards: Sequence[ShardEvidence], options: ScanOptions, tars: TinyTars, most: int
) -> Iterator[tuple[SamplePlace, Shape]]:
    """Yield at most ``most`` samples and their shapes: those in findings, then rare values, rarest first."""
    by_url = {shard.url: shard for shard in shards}
    given: set[SamplePlace] = set()
    for url, offset in dict.fromkeys(_wanted(shards)):
        if len(given) >= most:
            return
        place = tars.place_of(url, offset)
        if place is None or place in given:
            continue
        given.add(place)
        path = tars.tar(place)
        head = None if path is None else scan_shard(path, options).runs.head
        if head is not None and by_url[url].error is None:
            yield place, head.shape


def _wanted(shards: Sequence[ShardEvidence]) -> Iterator[tuple[str, int]]:
    """Yield shards and offsets of members."""
    kinds: dict[str, list[tuple[str, Tally]]] = {}
    named: dict[str, list[tuple[str, Tally]]] = {}
    for shard in shards:
        for found, into in ((shard.tallies, named), (shard.varieties, kinds)):
            for name, tally in found.items():
                if tally.key is not None and tally.offset is not None and not name.startswith(_NO_CONTENTS):
                    into.setdefault(name, []).append((shard.url, tally))
    samples = sum(shard.samples for shard in shards)
    totals = {name: sum(tally.count for _, tally in some) for name, some in kinds.items()}
    rare = sorted(
        (name for name, total in totals.items() if total <= max(3, _RARE * samples)), key=lambda name: totals[name]
    )
    for some in (*named.values(), *(kinds[name] for name in rare)):
        for url, tally in some[:_EACH]:
            assert tally.offset is not None
            yield url, tally.offset
