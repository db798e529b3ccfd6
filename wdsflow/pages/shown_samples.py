"""Samples of a tar as a page shows them: picture, caption, json."""

import base64
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.images.image_header import read_header
from wdsflow.shards.samples.grouping import ALL_SAMPLES, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source, SourceError, SourcePart
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.decode import Decode

# Pixels of the longer side.
SIDE = 128
# Bytes of memory for one image.
_BUDGET = 512 << 20
_DECODE = Decode(target=SIDE, mode="fast", budget=_BUDGET, orientation="ignore")
# Of one member.
_IMAGE_BYTES = 64 << 20
# Characters that are shown.
_TEXT = 500
_HEAD = 4096


class FoundSample(NamedTuple):
    """A sample of a tar, whose contents are read lazily."""

    key: str
    # By field.
    rows: dict[str, Row]
    source: Source

    def read(self, field: str, most: int) -> bytes:
        """Return the first bytes of a field; b"" if the field is missing. Raises OSError."""
        row = self.rows.get(field)
        return self.source.read_at(row[2], min(row[1], most)) if row else b""


@dataclass(frozen=True, slots=True)
class SampleView:
    """A sample on a page; texts are those of the tar, unescaped."""

    key: str
    # ``data:`` url.
    image: str = ""
    # Why there is no picture.
    trouble: str = ""
    # "640 x 480".
    size: str = ""
    caption: str = ""
    json: str = ""


def samples_at(url: Shard, starts: Iterable[int]) -> Iterator[tuple[int, FoundSample]]:
    """Yield the samples whose first headers are at these offsets of a tar; those that cannot be read are left out."""
    with suppress(SourceError), open_source(url) as source:
        for start in sorted(starts):
            if (found := next(_samples(SourcePart(source, start)), None)) is not None:
                yield start, found[1]


def samples_around(url: Shard, offsets: Iterable[int]) -> Iterator[tuple[int, FoundSample]]:
    """Yield the samples that have a member at these offsets of a tar; reads all headers up to the last of them."""
    wanted = sorted(offsets)
    with suppress(SourceError), open_source(url) as source:
        for end, found in _samples(source):
            while wanted and wanted[0] < end:
                yield wanted.pop(0), found
            if not wanted:
                return


def samples_of(url: Shard) -> Iterator[FoundSample]:
    """Yield the samples of a tar, as far as it can be read."""
    with suppress(SourceError), open_source(url) as source:
        yield from (found for _, found in _samples(source))


def _samples(source: Source) -> Iterator[tuple[int, FoundSample]]:
    """Yield the samples of a tar, each with the offset of its end."""
    sample: FoundSample | None = None
    for begins, key, field, row in grouped(Walk(source), ALL_SAMPLES):
        if begins:
            if sample is not None:
                yield row[3], sample
            sample = FoundSample(key, {}, source)
        if sample is not None:
            sample.rows[field] = row
    if sample is not None:
        yield 1 << 63, sample


def view(sample: FoundSample) -> SampleView:
    """Return a sample for a page. Raises OSError if the tar cannot be read."""
    field = image_field(sample.rows)
    data = sample.read(field, _IMAGE_BYTES) if field is not None else b""
    picture = thumbnail(data) if field is not None else None
    header = read_header(data[:_HEAD]) if data else None
    return SampleView(
        key=sample.key,
        image=picture.url if picture else "",
        trouble=picture.trouble if picture else "",
        size=f"{header.width} x {header.height}" if header and header.width else "",
        caption=_text(sample, "txt"),
        json=_text(sample, "json"),
    )


def _text(sample: FoundSample, field: str) -> str:
    text = sample.read(field, 4 * _TEXT).decode("utf-8", "replace")
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


class Thumbnail(NamedTuple):
    """``url`` holds the picture, "" if there is none; ``trouble`` says why."""

    url: str
    trouble: str = ""


def thumbnail(data: bytes) -> Thumbnail:
    """Return a picture of at most ``SIDE`` pixels a side, as WebP in a ``data:`` url.

    Decoding takes at most 512 MiB; what is larger, damaged or no image has no picture.
    """
    try:
        image = _DECODE.decode(data)
    except (StageError, Dropped) as error:
        return Thumbnail(
            "",
            f"{getattr(error, 'slug', '') or 'cannot be shown'}: {error}"
            if str(error)
            else str(error),
        )
    image.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=60, method=4)
    return Thumbnail(f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}")


def image_field(fields: Iterable[str]) -> str | None:
    """Return the field of a sample's image: the one that readers take, or the first that is an image by its name."""
    names = {name.lower().rpartition(".")[2]: name for name in reversed([*fields])}
    return next(
        (names[each] for each in (*IMAGE_FIELDS, "gif", "bmp", "tiff", "tif") if each in names),
        None,
    )
