"""Judgements on an image: what is odd about it, and what a decoder would make of it, by its header alone."""

from functools import lru_cache

from ..evidence import BAD, BIG, BOMB, OK
from .decode import decode_image
from .image_header import MAX_HEADER, UNREADABLE, ImageHeader
from .pillow import BOMB_PIXELS, MAX_IMAGE_PIXELS

__all__ = ["decode_image", "ends_early", "header_status", "image_notes"]

LARGE_PIXELS = 25_000_000  # OpenCLIP 4's default of --max-image-pixels
TINY_SIDE = 32
EXTREME_ASPECT = 10

_READ_IN_FULL = frozenset(("jpeg", "png", "gif", "webp", "bmp"))
_DEEP_MODES = frozenset(("I", "F"))
_EXTENSIONS = {
    "jpeg": frozenset(("jpg", "jpeg", "jpe", "jfif")),
    "png": frozenset(("png", "apng")),
    "gif": frozenset(("gif",)),
    "webp": frozenset(("webp",)),
    "bmp": frozenset(("bmp", "dib")),
    "tiff": frozenset(("tif", "tiff")),
    "jp2": frozenset(("jp2", "j2k", "jpc", "jpf", "jpx", "j2c")),
}
_CLAIMED = {extension: name for name, extensions in _EXTENSIONS.items() for extension in extensions}
_MARKUP = (b"<", b"{", b"[")
_MAGIC = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"RIFF", b"BM")
_JPEG_END, _PNG_END = b"\xff\xd9", b"IEND"


def image_notes(header: ImageHeader | None, suffix: str, head: bytes, size: int) -> tuple[str, ...]:
    """Return the names of the tallies that this image adds to, by its header.

    ``suffix`` is the field name as in the tar, ``head`` the first bytes, ``size`` the whole file's.
    """
    if header is None:
        if not size:
            return ("image.empty",)
        return ("image.html",) if head[:256].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_MARKUP) else ("image.not-image",)
    notes = _named(header.format, suffix) + _traits(header[3:9])
    width, height = header.width, header.height
    if width * height > LARGE_PIXELS or width < TINY_SIDE or height < TINY_SIDE or not 0.1 <= width / height <= 10:
        notes += _measures(width, height)
    if header.length > size or header.needs or (not header.mode and header.format in _READ_IN_FULL):
        notes += _refused(header, size)
    return notes
