"""Copies of a few samples of shards, in small tars."""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wdsflow.pieces.pieces import member
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError, SourcePart
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, number, padded
from wdsflow.shards.tar.walk import Member, Walk

END = bytes(1024)
# Of a sample.
MOST_BYTES = 64 << 20


class SamplePlace(NamedTuple):
    """The place of a sample."""

    shard: Shard
    # Of its first header.
    offset: int
    key: str


def places_in(url: Shard, *, allow_pipe: bool) -> list[SamplePlace]:
    """Return all samples of a shard in order, up to the place where readers stop; none if unreadable."""
    found: list[SamplePlace] = []
    with suppress(SourceError), open_source(url, allow_pipe=allow_pipe) as source:
        for begins, key, _, row in grouped(Walk(source)):
            if begins:
                found.append(SamplePlace(url, row[3], key))
    return found


class TinyTars:
    """Finds samples of shards, and writes tars of a few of them into a folder."""

    def __init__(self, folder: Path, *, allow_pipe: bool) -> None:
        self._folder, self._allow_pipe = folder, allow_pipe
        self._places: dict[Shard, list[SamplePlace]] = {}
        self._data: dict[SamplePlace, bytes | None] = {}
        self._written = 0

    def places_in(self, url: Shard) -> list[SamplePlace]:
        """Return all samples of a shard in order, see ``places_in``."""
        if url not in self._places:
            self._places[url] = places_in(url, allow_pipe=self._allow_pipe)
        return self._places[url]

    def first_in(self, url: Shard, most: int) -> list[SamplePlace]:
        """Return the first samples of a shard, without a read of the others; none if unreadable."""
        if url in self._places:
            return self._places[url][:most]
        with suppress(SourceError), open_source(url, allow_pipe=self._allow_pipe) as source:
            starts = (SamplePlace(url, row[3], key) for begins, key, _, row in grouped(Walk(source)) if begins)
            return list(islice(starts, most))
        return []

    def read(self, places: Iterable[SamplePlace]) -> None:
        """Read samples; a shard is opened once."""
        wanted: dict[Shard, list[SamplePlace]] = {}
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
                                # The walk has read past the next one.
                                break
                except SourceError:
                    continue

    def members(self, place: SamplePlace) -> list[tuple[str, bytes]]:
        """Return field and content of each member of a sample; none if it cannot be read."""
        path = self.tar(place)
        if path is None:
            return []
        with open_source(Shard.file(path)) as source:
            walk = Walk(source, contents=True)
            return [(field, walk.read(row)) for _, _, field, row in grouped(walk) if row[4] == "file"]

    def tar(self, *places: SamplePlace) -> str | None:
        """Return the path of a tar with these samples; None if one of them cannot be read."""
        self.read(places)
        pieces = [data for place in places if (data := self._data[place]) is not None]
        return self.write(b"".join(pieces) + END, places[0].shard) if len(pieces) == len(places) else None

    def write(self, data: bytes, like: str) -> str:
        """Write a tar into its own folder, under the name of its shard."""
        folder = self._folder / f"{self._written:05d}"
        self._written += 1
        folder.mkdir()
        name = os.path.basename(like.partition("?")[0]).partition(".tar")[0] or "shard"
        path = folder / f"{name[:100]}.tar"
        path.write_bytes(data)
        return str(path)


def numbered_keys(like: str, count: int, start: int = 0) -> list[str]:
    """Return keys that differ in the number at their end.

    >>> numbered_keys("a/img007", 2)
    ['a/img000', 'a/img001']
    """
    stem = like.rstrip("0123456789")
    width = len(like) - len(stem)
    return [f"{stem}{number:0{width}d}" for number in range(start, start + count)]


def renamed(key: str, members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a sample with another key, as a part of a tar."""
    return b"".join(member(f"{key}.{field}", content) for field, content in members)


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
