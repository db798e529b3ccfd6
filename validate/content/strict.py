"""Decoders that are stricter than Pillow, and quicker: they find damage that Pillow passes over."""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Literal
from zlib import crc32

Strict = Literal["sound", "damaged", "cut", "unknown"]

_segment = Struct(">BBH").unpack_from
_chunk = Struct(">I4s").unpack_from

# Warnings of libjpeg that sound files raise too: odd version numbers and unused parameters.
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
# Frames, tables, comments, restart interval, application segments: Pillow opens a file of only these.
_USUAL = frozenset((0xC0, 0xC1, 0xC2, 0xC4, 0xDB, 0xDD, 0xFE)) | frozenset(range(0xE0, 0xF0))
_APP0, _APP1, _APP2, _APP14, _SCAN = 0xE0, 0xE1, 0xE2, 0xEE, 0xDA
_SHORTEST_APP = 16  # Pillow reads into JFIF, Adobe and ICC segments without asking for their length
_MOST_SCANS = 100
_MOST_SCANNED = 4_000_000_000  # pixels times scans: a small progressive file can keep a decoder busy for hours


def load_simplejpeg() -> Callable[..., Any] | None:
    """Return simplejpeg's decoder, None where it is not installed."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        return None
    return decode_jpeg  # type: ignore[no-any-return]


def surely_opens(data: bytes) -> bool:
    """Tell whether ``PIL.Image.open`` is certain to take a JPEG that libjpeg takes.

    True for the plain majority. False, meaning "ask Pillow", where it would read EXIF or multi-picture data, or
    meets a segment that its own walk treats in another way than libjpeg's.
    """
    position = 2
    try:
        while True:
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF:
                return False
            if marker not in _USUAL:
                return bool(marker == _SCAN)
            if length < 2:
                return False
            if marker >= _APP0 and marker != 0xFE:
                if marker == _APP1 and not data.startswith(b"http://ns.adobe.com/xap/1.0/\0", position + 4):
                    return False
                if marker in (_APP0, _APP2, _APP14) and (length < 14 or data.startswith(b"MPF\0", position + 4)):
                    return False
                if marker == _APP2 and length < _SHORTEST_APP:
                    return False
            position += 2 + length
    except error:
        return False


def keeps_busy(data: bytes, pixels: int) -> bool:
    """Tell whether a progressive JPEG has so many scans that decoding it would take minutes or hours."""
    scans = data.count(b"\xff\xda")
    return scans > _MOST_SCANS and scans * pixels > _MOST_SCANNED


def decode_jpeg_strictly(decode: Callable[..., Any], data: bytes, mode: str) -> tuple[Strict, Any]:
    """Decode a JPEG at 1/8 of its size; every entropy-coded byte is read all the same.

    Returns the verdict and, for a sound file, the pixels as an array of shape (height / 8, width / 8, channels),
    grey except for CMYK. "unknown" where simplejpeg cannot decode this kind of JPEG at all.
    """
    colorspace = "CMYK" if mode == "CMYK" else "GRAY"
    try:
        return "sound", decode(data, colorspace, min_height=1, min_width=1, strict=True)
    except ValueError as exception:
        message = str(exception)
    if any(benign in message for benign in _BENIGN):
        return "unknown", None
    try:
        decode(data, colorspace, min_height=1, min_width=1, strict=False)
    except ValueError:
        return "unknown", None
    return "cut" if "Premature end" in message else "damaged", None


def check_png(data: bytes) -> Strict:
    """Compare the checksums of all chunks of a PNG. Pillow skips those of the image data."""
    view = memoryview(data)
    position = 8
    try:
        while True:
            length, name = _chunk(view, position)
            end = position + 12 + length
            if end > len(view):
                return "cut"
            if crc32(view[position + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
                return "damaged"
            if name == b"IEND":
                return "sound"
            position = end
    except error:
        return "cut"
