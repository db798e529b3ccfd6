"""Copies of a few samples of shards, in small tars."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wdsflow.pieces.tar_members import member
from wdsflow.shards.samples.grouping import group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError, SourcePart
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, decode_number, padded
from wdsflow.shards.tar.walk import Member, Walk

# Two empty blocks.
TAR_END = bytes(1024)
# Of a sample: a larger one is not copied.
_MOST_BYTES = 64 << 20
_MOST_NAME_LETTERS = 100
# Of a tar header: its type, and the size of what follows it.
_TYPE, _SIZE = slice(156, 157), slice(124, 136)
_GLOBAL_HEADER = b"g"


class SampleLocation(NamedTuple):
    """Where a sample is."""

    shard: Shard
    # Of its first header, in bytes.
    offset: int
    key: str


class SmallTars:
    """Reads samples of shards, and writes tars of a few of them.

    Args:
        folder: for the tars.
        allow_pipe: whether shards may be the output of commands.
    """

    def __init__(self, folder: Path, *, allow_pipe: bool) -> None:
        self._folder = folder
        self._allow_pipe = allow_pipe
        self._locations: dict[Shard, list[SampleLocation]] = {}
        # Bytes of samples that were read; None: they cannot be read.
        self._samples: dict[SampleLocation, bytes | None] = {}
        self._tars_written = 0

    def locations_in(self, url: Shard) -> list[SampleLocation]:
        """Return all samples of a shard in order, see ``locations_in``."""
        if url not in self._locations:
            self._locations[url] = locations_in(url, allow_pipe=self._allow_pipe)
        return self._locations[url]

    def first_in(self, url: Shard, most: int) -> list[SampleLocation]:
        """Return the first samples of a shard, without a read of the others; none if unreadable."""
        if url in self._locations:
            return self._locations[url][:most]
        with suppress(SourceError), open_source(url, allow_pipe=self._allow_pipe) as source:
            return list(islice(_locations(url, source), most))
        return []

    def read(self, locations: Iterable[SampleLocation]) -> None:
        """Read samples that were not read before."""
        by_shard: dict[Shard, list[SampleLocation]] = {}
        for location in locations:
            if location not in self._samples:
                by_shard.setdefault(location.shard, []).append(location)
        for url, unread in by_shard.items():
            self._samples.update(dict.fromkeys(unread))
            self._read_from(url, sorted(unread, key=lambda location: location.offset))

    def _read_from(self, url: Shard, unread: list[SampleLocation]) -> None:
        """Read samples of one shard, given in their order.

        The shard is opened once, if it can be read at any offset.
        """
        while unread:
            before = len(unread)
            # The sample at which reading fails stays None, and the next ones are tried.
            with suppress(SourceError), open_source(url, allow_pipe=self._allow_pipe) as source:
                while unread:
                    location = unread.pop(0)
                    self._samples[location] = _sample_bytes(source, location.offset)
                    if not source.is_seekable:
                        # The walk has read past the beginning of the next sample.
                        break
            if len(unread) == before:
                # The shard cannot even be opened.
                return

    def members(self, location: SampleLocation) -> list[tuple[str, bytes]]:
        """Return field and content of each member of a sample; none if it cannot be read."""
        path = self.tar(location)
        if path is None:
            return []
        members = []
        with open_source(Shard.file(path)) as source:
            walk = Walk(source, contents=True)
            for _, _, field, row in group_members(walk):
                if Member(*row).kind == "file":
                    members.append((field, walk.read(row)))
        return members

    def tar(self, *locations: SampleLocation) -> str | None:
        """Return the path of a tar with these samples; None if one of them cannot be read."""
        self.read(locations)
        samples = []
        for location in locations:
            sample = self._samples[location]
            if sample is None:
                return None
            samples.append(sample)
        return self.write(b"".join(samples) + TAR_END, locations[0].shard)

    def write(self, data: bytes, url: str) -> str:
        """Write a tar into a folder of its own, under the name of a shard, and return its path."""
        folder = self._folder / f"{self._tars_written:05d}"
        self._tars_written += 1
        folder.mkdir()
        without_query = url.partition("?")[0]
        name = os.path.basename(without_query).partition(".tar")[0] or "shard"
        path = folder / f"{name[:_MOST_NAME_LETTERS]}.tar"
        path.write_bytes(data)
        return str(path)


def locations_in(url: Shard, *, allow_pipe: bool) -> list[SampleLocation]:
    """Return all samples of a shard in order, up to the offset where readers stop.

    Returns none if the shard is unreadable.
    """
    locations: list[SampleLocation] = []
    with suppress(SourceError), open_source(url, allow_pipe=allow_pipe) as source:
        # It adds one by one: those before an error remain.
        locations.extend(_locations(url, source))
    return locations


def numbered_keys(like: str, count: int, start: int = 0) -> list[str]:
    """Return keys that differ in the number at their end.

    >>> numbered_keys("a/img007", 2)
    ['a/img000', 'a/img001']
    """
    stem = like.rstrip("0123456789")
    width = len(like) - len(stem)
    return [f"{stem}{number:0{width}d}" for number in range(start, start + count)]


def renamed(key: str, members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a sample with another key, as a part of a tar."""
    return b"".join(member(f"{key}.{field}", content) for field, content in members)


def _locations(url: Shard, source: Source) -> Iterator[SampleLocation]:
    """Yield the samples of an open shard in order."""
    for begins_sample, key, _, row in group_members(Walk(source)):
        if begins_sample:
            yield SampleLocation(url, Member(*row).header, key)


def _sample_bytes(source: Source, offset: int) -> bytes | None:
    """Return the unchanged bytes of the sample at an offset; None if there are too many.

    They are those of the members that share the key of the first one.
    """
    part = SourcePart(source, offset, _global_headers(source))
    end = 0
    for begins_sample, _, _, row in group_members(Walk(part)):
        member_row = Member(*row)
        if end and (begins_sample or member_row.header > _MOST_BYTES):
            end = member_row.header
            break
        end = member_row.end
    return part.read_at(0, end) if 0 < end <= _MOST_BYTES else None


def _global_headers(source: Source) -> bytes:
    """Return the extended headers at the start of a tar that hold for all members.

    ``git archive`` writes one.
    """
    end = 0
    while (block := source.read_at(end, BLOCK))[_TYPE] == _GLOBAL_HEADER:
        try:
            end += BLOCK + padded(decode_number(block[_SIZE]))
        except BadHeader:
            break
    return source.read_at(0, end) if 0 < end <= _MOST_BYTES else b""
