"""The header of a PNG file: its chunks up to the first image data (PNG, third edition; APNG included)."""

from struct import Struct, error
from typing import Any
from zlib import crc32

from .exif import exif_orientation, xmp_orientation
from .header import ImageHeader, more_bytes

_chunk = Struct(">I4s").unpack_from
_start = Struct(">I4sIIBBBBBI").unpack_from
_count = Struct(">I").unpack_from
_new: Any = tuple.__new__

# Bits a channel and colour type -> Pillow's mode; others are refused.
_MODES = {
    0x0100: "1",
    0x0200: "L",
    0x0400: "L",
    0x0800: "L",
    0x1000: "I;16",
    0x0802: "RGB",
    0x1002: "RGB",
    0x0103: "P",
    0x0203: "P",
    0x0403: "P",
    0x0803: "P",
    0x0804: "LA",
    0x1004: "RGBA",
    0x0806: "RGBA",
    0x1006: "RGBA",
}
_WITH_ALPHA = (4, 6)
_HEADER, _DATA, _END, _FRAME_DATA = b"IHDR", b"IDAT", b"IEND", b"fdAT"
_TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT = b"tRNS", b"iCCP", b"eXIf", b"acTL", b"iTXt"
_OF_INTEREST = frozenset((_DATA, _END, _FRAME_DATA, _TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT))
_XMP = b"XML:com.adobe.xmp\0"
_MOST_CHUNKS = 1000


def read_png(data: bytes) -> ImageHeader:
    """Return the header of PNG bytes that start with its signature.

    ``alpha``, ``animated``, ``icc`` and ``orientation`` tell of chunks that lie within ``data``. ``mode`` is ""
    where Pillow refuses: a wrong checksum, an unknown colour type, no header before the image data.
    """
    position = 8
    try:
        length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(data, position)
        if name != _HEADER:
            position = _find_header(data)
            length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(data, position)
    except error:
        needs = more_bytes(len(data)) if position > 8 else 33
        return ImageHeader("png", 0, 0, "", needs=needs, length=len(data) + 1)
    mode = _MODES.get(bits << 8 | colour, "")
    if length != 13 or kind or not width or not height or crc32(data[position + 4 : position + 21]) != crc:
        mode = ""
    position += 12 + length
    alpha, animated, icc, orientation = colour in _WITH_ALPHA, False, False, 1
    try:
        length, name = _chunk(data, position)
        if name != _DATA:
            transparent, animated, icc, orientation = _walk(data, position)
            alpha = alpha or transparent
    except error:
        pass
    header: ImageHeader = _new(
        ImageHeader,
        ("png", width, height, mode, bits, orientation, animated, interlace > 0, alpha, icc, 0, 0),
    )
    return header


def _find_header(data: bytes) -> int:
    """Return where the header chunk starts in a file that has other chunks before it."""
    position = 8
    for _ in range(_MOST_CHUNKS):
        length, name = _chunk(data, position)
        if name == _HEADER:
            break
        position += 12 + length
    return position


def _walk(data: bytes, position: int) -> tuple[bool, bool, bool, int]:
    """Return transparency, animation, colour profile and orientation from the chunks before the image data."""
    alpha = animated = icc = False
    orientation, packet = None, b""
    try:
        for _ in range(_MOST_CHUNKS):
            length, name = _chunk(data, position)
            if name in _OF_INTEREST:
                place = position + 8
                if name == _TRANSPARENCY:
                    alpha = True
                elif name == _PROFILE:
                    icc = True
                elif name == _EXIF:
                    orientation = exif_orientation(data[place : place + length])
                elif name == _ANIMATION:
                    animated = _count(data, place)[0] > 1
                elif name == _TEXT:
                    if data.startswith(_XMP, place):
                        packet = data[place : place + length]
                else:
                    break
            position += 12 + length
    except error:
        pass
    if orientation is None:
        orientation = xmp_orientation(packet)
    return alpha, animated, icc, 1 if orientation is None else orientation
