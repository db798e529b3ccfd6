"""Samples of a tar that a page shows, read lazily."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from wdsflow.shards.samples.grouping import ALL_SAMPLES, group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source, SourceError, SourcePart
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.walk import Walk


class PageSample(NamedTuple):
    """A sample of a tar, whose contents are read lazily."""

    key: str
    # By field.
    rows: dict[str, Row]
    source: Source

    def read(self, field: str, most: int) -> bytes:
        """Return the first bytes of a field; b"" if the field is missing. Raises OSError."""
        row = self.rows.get(field)
        if row is None:
            return b""
        return self.source.read_at(row[2], min(row[1], most))


def samples_at(url: Shard, starts: Iterable[int]) -> Iterator[tuple[int, PageSample]]:
    """Yield the samples whose first headers are at these offsets of a tar.

    Samples that cannot be read are left out.
    """
    with suppress(SourceError), open_source(url) as source:
        for start in sorted(starts):
            for _end, sample in _samples(SourcePart(source, start)):
                yield start, sample
                break


def samples_around(url: Shard, offsets: Iterable[int]) -> Iterator[tuple[int, PageSample]]:
    """Yield the samples that have a member at these offsets of a tar.

    Reads all headers up to the last offset.
    """
    remaining = sorted(offsets)
    with suppress(SourceError), open_source(url) as source:
        for end, sample in _samples(source):
            while remaining and remaining[0] < end:
                yield remaining.pop(0), sample
            if not remaining:
                return


def samples_of(url: Shard) -> Iterator[PageSample]:
    """Yield the samples of a tar, as far as it can be read."""
    with suppress(SourceError), open_source(url) as source:
        for _end, sample in _samples(source):
            yield sample


def _samples(source: Source) -> Iterator[tuple[int, PageSample]]:
    """Yield the samples of a tar, each with the offset of its end."""
    sample: PageSample | None = None
    for begins, key, field, row in group_members(Walk(source), ALL_SAMPLES):
        if begins:
            if sample is not None:
                yield row[3], sample
            sample = PageSample(key, {}, source)
        if sample is not None:
            sample.rows[field] = row
    if sample is not None:
        yield 1 << 63, sample


def image_field(fields: Iterable[str]) -> str | None:
    """Return the field of a sample's image, None if it has none.

    This is the field that readers take, or the first that its name marks as an image.
    """
    # Of several with one extension, the first.
    names = {name.lower().rpartition(".")[2]: name for name in reversed([*fields])}
    for extension in (*IMAGE_FIELDS, "gif", "bmp", "tiff", "tif"):
        if extension in names:
            return names[extension]
    return None
