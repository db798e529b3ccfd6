"""The header of an image by its first bytes: format, size, mode and traits, without decoding.

JPEG, PNG, GIF and WebP are read by our code, in a tenth of Pillow's time or less. Pillow reads all
other formats; those that it cannot open are known by magic bytes.
"""

import re
from collections.abc import Callable
from struct import Struct, error

from .gif import read_gif
from .header import MAX_HEADER, ImageHeader
from .jpeg import read_jpeg
from .png import read_png
from .webp import read_webp

__all__ = [
    "HEAD",
    "UNREADABLE",
    "ImageHeader",
    "first_header",
    "is_markup",
    "read_header",
]

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_GIF = (b"GIF87a", b"GIF89a")

# Bytes that nearly all headers fit into.
HEAD = 4096
# Bytes of a file of which no quick look says what it is.
_MOST_SEARCHED = 64 << 20
_BLANKS = b"\xef\xbb\xbf \t\r\n"

_two_longs = Struct(">II").unpack_from
_HEIC = frozenset((b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"))
_AVIF = frozenset((b"avif", b"avis"))
_SVG = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*|<!--.{0,2000}?-->\s*|<!DOCTYPE\s+svg[^>]*>\s*)*<svg[\s>]",
    re.IGNORECASE | re.DOTALL,
)

# Formats that Pillow has no decoder for, or only names; and
# eps, for which it would run another program.
UNREADABLE = frozenset("bufr emf eps exr grib hdf5 heic jxl mp4 mpeg pdf svg wmf".split())
# Bytes.
_SEARCHED = 1 << 16

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "pdf"),
    (b"\xff\x0a", "jxl"),
    (b"\0\0\0\x0cJXL ", "jxl"),
    (b"v/1\x01", "exr"),
    (b"%!PS", "eps"),
    (b"\xc5\xd0\xd3\xc6", "eps"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\0\0\x01\xb3", "mpeg"),
)


def read_header(data: bytes) -> ImageHeader | None:
    """Return the header in the first bytes of a file, None if they are not an image.

    4 KiB do for nearly all files. Where EXIF, a colour profile or a comment is larger, ``needs`` is
    the number of bytes to call again with, at most 1 MiB. Width, height, mode, progressive and
    orientation are Pillow's, but for HEIC and AVIF. Never raises.
    """
    if data.startswith(_JPEG):
        return read_jpeg(data)
    if data.startswith(_PNG):
        return read_png(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return read_webp(data)
    if data.startswith(_GIF):
        return read_gif(data)
    return read_other(data) if data else None


def first_header(read: Callable[[int, int], bytes], size: int) -> tuple[ImageHeader | None, bytes]:
    """Return the image header of a file of ``size`` bytes, and the leading bytes read to find it.

    It reads only as many bytes as the header needs.

    ``read(start, size)`` returns bytes of the file. Formats that have more than 4 KiB before their
    first pixel, such as PSD, XPM and DCX, are recognized only by a look at the whole file, up to 64
    MiB.
    """
    head = read(0, HEAD)
    header = read_header(head)
    while header is not None and len(head) < header.needs <= MAX_HEADER and len(head) < size:
        head += read(len(head), header.needs - len(head))
        header = read_header(head)
    if header is None and len(head) < size <= _MOST_SEARCHED and not is_markup(head):
        head += read(len(head), size - len(head))
        header = read_header(head)
    return header, head


def is_markup(head: bytes) -> bool:
    """Return whether a file begins like HTML, XML or JSON."""
    return head[:256].lstrip(_BLANKS)[:1] in (b"<", b"{", b"[")


def read_other(data: bytes) -> ImageHeader | None:
    """Return the header of any other image format, None for bytes that are not an image.

    If neither the magic nor Pillow's plugins know them, width and height are 0 and the mode is "".
    """
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return ImageHeader(name, 0, 0, "")
    if data[4:8] == b"ftyp":
        return _iso_media(data)
    if is_markup(data):
        is_svg = _SVG.match(data[:4096].lstrip(b"\xef\xbb\xbf")) is not None
        return ImageHeader("svg", 0, 0, "") if is_svg else None
    if not data[:256].strip(_BLANKS):
        return None
    # Imports Pillow.
    from .pillow_header import pillow_header

    return pillow_header(data)


def _iso_media(data: bytes) -> ImageHeader | None:
    """Return the header of an AVIF, HEIC or MP4 by its first boxes (ISO 14496-12)."""
    box_size = int.from_bytes(data[:4], "big")
    # The major brand, and the compatible ones after its version.
    offsets = (8, *range(16, min(64, box_size), 4))
    brands = {data[offset : offset + 4] for offset in offsets}
    if brands & _AVIF:
        name = "avif"
    elif brands & _HEIC:
        name = "heic"
    else:
        return ImageHeader("mp4", 0, 0, "")
    width = height = 0
    offset = data.find(b"ispe", 0, _SEARCHED)
    # The largest one: thumbnails and tiles have sizes, too.
    while offset >= 0:
        try:
            across, down = _two_longs(data, offset + 8)
        except error:
            break
        if across * down > width * height:
            width, height = across, down
        offset = data.find(b"ispe", offset + 4, _SEARCHED)
    return ImageHeader(name, width, height, "")
