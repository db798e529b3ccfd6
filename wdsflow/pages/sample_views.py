"""Samples as a page shows them: picture, caption, json."""

from dataclasses import dataclass

from wdsflow.images.image_header import read_header

from .page_samples import PageSample, image_field
from .thumbnails import thumbnail

# Bytes of an image that are read.
_IMAGE_BYTES = 64 << 20
# Characters that are shown.
_TEXT = 500
_HEAD = 4096


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


def sample_view(sample: PageSample) -> SampleView:
    """Return a sample for a page. Raises OSError if the tar cannot be read."""
    caption = _text(sample, "txt")
    json = _text(sample, "json")
    field = image_field(sample.rows)
    if field is None:
        return SampleView(key=sample.key, caption=caption, json=json)
    data = sample.read(field, _IMAGE_BYTES)
    picture = thumbnail(data)
    header = read_header(data[:_HEAD]) if data else None
    size = f"{header.width} x {header.height}" if header and header.width else ""
    return SampleView(sample.key, picture.url, picture.trouble, size, caption, json)


def _text(sample: PageSample, field: str) -> str:
    """Return the beginning of a field that is a text."""
    # A character has at most four bytes.
    text = sample.read(field, 4 * _TEXT).decode("utf-8", "replace")
    if len(text) <= _TEXT:
        return text
    return f"{text[:_TEXT]}…"
