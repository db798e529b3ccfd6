"""The fields of a sample.

Selects images and captions by name, and reads their headers and texts.
"""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wdsflow.images.header import MAX_HEADER, ImageHeader
from wdsflow.images.image_header import HEAD, first_header, read_header
from wdsflow.images.orientation import exif_orientation, xmp_orientation
from wdsflow.images.pillow_header import tiff_header
from wdsflow.images.webp import webp_metadata
from wdsflow.shards.byte_order_marks import encoding_of
from wdsflow.shards.caption_field import (
    LARGEST,
    CaptionField,
    caption_in,
    look_up,
    parse_caption_field,
    parse_json,
)
from wdsflow.shards.numbered_names import natural_order
from wdsflow.shards.shard_names import alternatives

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from .sample_view import View

CAPTIONS = "txt"
VIDEOS = "mp4;webm;mkv;avi;mov"

# Bytes to read at a time.
CHUNK = 1 << 20

# Bytes of a caption.
_LONGEST = 1 << 20
# A property of the container, or compressed.
_OWN_ORIENTATION = frozenset(("avif", "heic", "jxl"))


class ScoreError(Exception):
    """A score that could not be computed.

    It is counted by ``slug``; ``detail`` is the reason for one sample.

    It differs from a score of 0 or "": a missing value proves nothing.
    """

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug, self.detail = slug, detail

    def __reduce__(self) -> tuple[type["ScoreError"], tuple[str, str]]:
        # By default only the message is pickled: an error
        # without slug would break the process pool.
        return type(self), (self.slug, self.detail)


class FieldNames(NamedTuple):
    """Names of fields to try; a name with a star is a pattern."""

    names: tuple[str, ...]


@lru_cache(maxsize=64)
def parse_images(text: str) -> FieldNames:
    """Parse ``jpg;png``: the first field that exists is the image. Raises ValueError.

    If none exists, all numbered fields of these names are images, ``0.jpg``, ``1.png``, in the
    order of their numbers. A pattern, ``*.jpg``, selects all fields that match, in natural order.
    """
    return FieldNames(alternatives(text))


@lru_cache(maxsize=64)
def parse_captions(text: str) -> tuple[FieldNames | CaptionField, ...]:
    """Parse the sources of captions: ``txt``, ``txt;text`` or ``json:caption;alt``.

    Several of these are tried in order: ``txt|json:caption``.

    Fields are chosen as for images (``0.txt``, ``1.txt`` are several captions); a list in json is
    several captions. Raises ValueError.

    >>> parse_captions("txt|json:caption;alt")
    (FieldNames(names=('txt',)), CaptionField(member='json', names=('caption', 'alt')))
    """
    return tuple(
        parse_caption_field(part) if ":" in part else FieldNames(alternatives(part))
        for part in text.split("|")
    )


def chosen_fields(requested: FieldNames, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of a sample that the names select.

    >>> chosen_fields(parse_images("jpg;png"), ["png", "txt", "0.png"])
    ('png',)
    >>> chosen_fields(parse_images("jpg;png"), ["10.png", "9.jpg", "txt", "seg.png"])
    ('9.jpg', '10.png')
    >>> chosen_fields(parse_images("view*.jpg"), ["view10.jpg", "view2.jpg", "jpg"])
    ('view2.jpg', 'view10.jpg')
    """
    # Read several times.
    if not isinstance(fields, (dict, set, frozenset, list, tuple)):
        fields = list(fields)
    for name in requested.names:
        if "*" in name:
            matches = _matching(name, fields)
            if matches:
                return tuple(sorted(matches, key=natural_order))
        elif name in fields:
            return (name,)
    numbered = [field for field in fields if _is_numbered(field, requested.names)]
    return tuple(sorted(numbered, key=natural_order))


def _matching(pattern: str, fields: Iterable[str]) -> list[str]:
    parts = [re.escape(part) for part in pattern.split("*")]
    expression = re.compile(".*".join(parts), re.DOTALL)
    return [field for field in fields if expression.fullmatch(field)]


def _is_numbered(field: str, names: tuple[str, ...]) -> bool:
    """Return whether a field is a number and one of the names, such as 0.jpg."""
    # Most fields are not.
    if not field[:1].isdigit():
        return False
    number, _, name = field.partition(".")
    return name in names and number.isascii() and number.isdigit()


class Fields(Protocol):
    """The fields of one sample: names in lower case, sizes, ranges of bytes."""

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""

    def __contains__(self, name: object, /) -> bool:
        """Return whether a field exists."""

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return ``size`` bytes of a field from ``start`` on.

        There are fewer only if the shard ends earlier.
        """


class Held(dict[str, bytes]):
    """The fields of a sample that is in memory."""

    def size(self, name: str) -> int:
        return len(self[name])

    def read(self, name: str, start: int, size: int) -> bytes:
        data = self[name]
        return data if not start and size == len(data) else data[start : start + size]


class FieldReader(Protocol):
    """Reads a sample's fields, and counts the bytes."""

    fields: Fields

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return a part of a field, all of it by default. Raises ScoreError."""


class FieldFile(io.RawIOBase):
    """A field as a file that reads only the requested ranges. Reading raises ScoreError."""

    def __init__(self, reader: FieldReader, name: str) -> None:
        self._reader = reader
        self._name = name
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._at, self._reader.fields.size(self._name))[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        data = b""
        if self._at < self._reader.fields.size(self._name):
            data = self._reader.read(self._name, self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def image_header(reader: FieldReader, name: str) -> ImageHeader:
    """Return the header of an image.

    ``width`` is 0 if the format has no size in its header. Raises ScoreError.
    """
    size = reader.fields.size(name)
    header, head = first_header(partial(reader.read, name), size)
    if header is None:
        raise ScoreError("not-an-image", f"{size:,} bytes that begin with {head[:16]!r}")
    if header.format == "tiff" and not header.width:
        return _tiff_header(reader, name)
    if not header.width and header.needs and len(head) >= size:
        raise ScoreError("truncated", f"{header.format}: the file ends within its header")
    return header


class ImageField(NamedTuple):
    """An encoded image of a sample, of which only the requested parts are read."""

    reader: "View"
    name: str

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.reader.fields.size(self.name)

    def is_animated(self) -> bool:
        """Return whether the image is an animation.

        For a second frame of a GIF, only the first MiB is searched.
        """
        header = self.reader.header(self.name)
        if header.format == "gif" and not header.animated and self.size > HEAD:
            header = read_header(self.reader.read(self.name, 0, MAX_HEADER)) or header
        return header.animated

    def orientation(self) -> int:
        """Return the EXIF orientation.

        Pixels are not read, even if the orientation is after them, as in WebP.
        """
        header = self.reader.header(self.name)
        if header.format in _OWN_ORIENTATION:
            detail = f"field {self.name!r}: that of {header.format} is not looked for"
            raise ScoreError("unknown-orientation", detail)
        if header.format != "webp":
            return header.orientation
        return self._webp_orientation()

    def _webp_orientation(self) -> int:
        exif: int | None = None
        xmp: int | None = None
        read = partial(self.reader.read, self.name)
        for chunk, start, length in webp_metadata(read, self.size):
            data = read(start, min(length, MAX_HEADER))
            if chunk == b"EXIF":
                exif = exif_orientation(data.removeprefix(b"Exif\0\0"))
            else:
                xmp = xmp_orientation(data)
        if exif is not None:
            return exif
        return 1 if xmp is None else xmp


def caption_texts(reader: FieldReader, sources: tuple[FieldNames | CaptionField, ...]) -> list[str]:
    """Return the captions of the first source that has any."""
    for source in sources:
        if isinstance(source, FieldNames):
            texts = [_text(reader, name) for name in chosen_fields(source, reader.fields)]
        else:
            texts = _texts_in_json(reader, source)
        if texts:
            return texts
    return []


def _text(reader: FieldReader, name: str) -> str:
    size = reader.fields.size(name)
    if size > _LONGEST:
        raise ScoreError(
            "large-text", f"field {name!r} has {size:,} bytes, at most {_LONGEST:,} are read"
        )
    data = reader.read(name)
    try:
        return data.decode(_encoding_of(data))
    except UnicodeDecodeError as error:
        raise ScoreError("not-utf8", f"field {name!r}: {error}") from None


def _encoding_of(data: bytes) -> str:
    """Return the encoding of a text by its byte order mark."""
    # Most texts begin with a letter.
    if data[:1] <= b"z" and data[:1] != b"\0":
        return "utf-8"
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    return encoding_of(data)


def json_tree(reader: FieldReader, name: str) -> object:
    """Return a field's json, parsed."""
    size = reader.fields.size(name)
    if size > LARGEST:
        raise ScoreError(
            "large-json", f"field {name!r} has {size:,} bytes, at most {LARGEST:,} are read"
        )
    try:
        return parse_json(reader.read(name))
    except ValueError as error:
        raise ScoreError("bad-json", f"field {name!r}: {error}") from None


def _texts_in_json(reader: FieldReader, source: CaptionField) -> list[str]:
    """Return the captions under the first name that has any.

    Raises ScoreError if there are only other values.
    """
    if source.member not in reader.fields:
        return []
    tree = json_tree(reader, source.member)
    other_types: set[str] = set()
    for name in source.names:
        value = look_up(tree, name)
        items: list[object] = value if isinstance(value, list) else [value]
        texts: list[str] = []
        for item in items:
            text = None if isinstance(item, list) else caption_in(item)
            if text is not None:
                texts.append(text)
            elif isinstance(item, (bool, int, float, dict)):
                other_types.add(type(item).__name__)
        if any(len(text) > _LONGEST for text in texts):
            raise ScoreError(
                "large-text",
                f"{source.member!r} holds a caption of more than {_LONGEST:,} characters",
            )
        if texts:
            return texts
    if other_types:
        names = ";".join(source.names)
        types = ", ".join(sorted(other_types))
        raise ScoreError("not-text", f"{source.member!r} holds no text under {names!r} but {types}")
    return []


def _tiff_header(reader: FieldReader, name: str) -> ImageHeader:
    """Let Pillow follow the offset to the directory, which many writers put at the end."""
    try:
        return tiff_header(io.BufferedReader(FieldFile(reader, name), 1024))
    except ScoreError:
        raise
    except Exception as error:  # noqa: BLE001 - Pillow raises many kinds of errors for damaged directories
        raise ScoreError("undecodable", f"tiff: {str(error)[:200]}") from None
