"""The header of an image by its first bytes: format, size, mode and traits, without decoding.

JPEG, PNG, GIF and WebP are read by our code, in a tenth of Pillow's time or less. Pillow reads all
other formats; those that it cannot open are known by magic bytes.
"""

import re
from collections.abc import Callable
from io import BytesIO
from struct import Struct, error
from typing import IO, Any

from .gif import read_gif
from .header import MAX_HEADER, ImageHeader, more_bytes
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
    "tiff_header",
]

_JPEG, _PNG, _GIF = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a")

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

# Formats that Pillow has no decoder for, or only names; and eps, for which it would run another
# program.
UNREADABLE = frozenset("bufr emf eps exr grib hdf5 heic jxl mp4 mpeg pdf svg wmf".split())
# Bytes.
_SEARCHED = 1 << 16

# Formats whose magic bytes are proof, also where Pillow does not open the rest, and our names for
# them.
_CERTAIN = {"BMP": "bmp", "TIFF": "tiff", "JPEG2000": "jp2", "ICO": "ico", "ICNS": "icns"}
# To open an icon is to decode it.
_MORE_HELPS = frozenset(("BMP", "TIFF", "JPEG2000"))
# Bytes: the header that OS/2 wrote, without compression.
_SHORT_BMP = 12
# Bytes: the directory of a TIFF is often at its end, which is not read for this.
_MOST_MORE = 1 << 16

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
    """Return the header of a file of ``size`` bytes, and the bytes read for it: as many of the first as it needs.

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
        return (
            ImageHeader("svg", 0, 0, "")
            if _SVG.match(data[:4096].lstrip(b"\xef\xbb\xbf"))
            else None
        )
    return _ask_pillow(data) if data[:256].strip(_BLANKS) else None


def _iso_media(data: bytes) -> ImageHeader | None:
    brands = {
        data[place : place + 4]
        for place in (8, *range(16, min(64, int.from_bytes(data[:4], "big")), 4))
    }
    name = "avif" if brands & _AVIF else "heic" if brands & _HEIC else "mp4"
    width = height = 0
    place = data.find(b"ispe", 0, _SEARCHED)
    # The largest one: thumbnails and tiles have their own.
    while place >= 0 and name != "mp4":
        try:
            across, down = _two_longs(data, place + 8)
        except error:
            break
        if across * down > width * height:
            width, height = across, down
        place = data.find(b"ispe", place + 4, _SEARCHED)
    return ImageHeader(name, width, height, "")


class _Head(BytesIO):
    """The first bytes of a file. ``wanted``: how many there would have to be for the first read that goes beyond them."""

    wanted = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if size is not None and len(found) < size and not self.wanted:
            self.wanted = self.tell() + size - len(found)
        return found


def tiff_header(file: IO[bytes]) -> ImageHeader:
    """Return the header of a TIFF, anywhere in the file. Raises the errors of Pillow's plugin."""
    from PIL import TiffImagePlugin

    from .pillow import quiet

    with quiet(), TiffImagePlugin.TiffImageFile(file, "") as image:
        return _header_of(image)


def _header_of(image: Any) -> ImageHeader:
    """Return the header of an image that Pillow has opened without decoding it."""
    name: str = _CERTAIN.get(image.format, image.format.lower())
    mode: str = image.mode
    bits, orientation, length = 8, 1, 0
    if name == "tiff":
        bits, turned = max(image.tag_v2.get(258, (1,))), image.tag_v2.get(274)
        orientation = turned if isinstance(turned, int) else 1
    elif name == "bmp":
        coder, _box, start, (_mode, stride, *_) = image.tile[0]
        # The last row may lack its padding.
        if coder == "raw":
            head = image.fp.getvalue()
            bits_a_row = image.width * head[24 if head[14] == _SHORT_BMP else 28]
            length = start + stride * (image.height - 1) + (bits_a_row + 7 >> 3)
    width, height = image.size
    alpha = mode.endswith(("A", "a"))
    return ImageHeader(name, width, height, mode, bits, orientation, alpha=alpha, length=length)


def _ask_pillow(data: bytes) -> ImageHeader | None:
    """Let Pillow's plugins look at the bytes, without its limit on pixels."""
    from PIL import Image

    from .pillow import quiet

    with quiet():
        Image.init()
        for name in Image.ID:
            factory, accept = Image.OPEN[name]
            accepted: bool | str = False
            head = _Head(data)
            try:
                accepted = not accept or accept(data[:16])
                if accepted and not isinstance(accepted, str):
                    with factory(head, "") as image:
                        return _header_of(image)
            except Exception:  # noqa: BLE001 - a plugin may fail in any way on bytes that are not its own
                if accepted is True and name in _CERTAIN:
                    return _unopened(name, head.wanted)
    return None


def _unopened(name: str, wanted: int) -> ImageHeader:
    """Return the header of an image that Pillow opens only with more bytes, or not at all."""
    if not wanted or name not in _MORE_HELPS:
        return ImageHeader(_CERTAIN[name], 0, 0, "")
    needs = more_bytes(wanted) if wanted <= _MOST_MORE else 1
    return ImageHeader(_CERTAIN[name], 0, 0, "", needs=needs, length=wanted)
