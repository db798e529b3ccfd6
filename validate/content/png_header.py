"""The header of a PNG file: its chunks up to the first image data (PNG, third edition; APNG included)."""

from struct import Struct, error
from typing import Any
from zlib import crc32

from .exif import exif_orientation, xmp_orientation
from .header import ImageHeader

_chunk = Struct(">I4s").unpack_from
_fields = Struct(">IIBBBBBI").unpack_from
_count = Struct(">I").unpack_from
_new: Any = tuple.__new__

# (bits, colour type) -> Pillow's mode; other pairs are refused.
_MODES = {
    (1, 0): "1",
    (2, 0): "L",
    (4, 0): "L",
    (8, 0): "L",
    (16, 0): "I;16",
    (8, 2): "RGB",
    (16, 2): "RGB",
    (1, 3): "P",
    (2, 3): "P",
    (4, 3): "P",
    (8, 3): "P",
    (8, 4): "LA",
    (16, 4): "RGBA",
    (8, 6): "RGBA",
    (16, 6): "RGBA",
}
_HEADER, _DATA, _END, _FRAME_DATA = b"IHDR", b"IDAT", b"IEND", b"fdAT"
_TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT = b"tRNS", b"iCCP", b"eXIf", b"acTL", b"iTXt"
_OF_INTEREST = frozenset((_HEADER, _DATA, _END, _FRAME_DATA, _TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT))
_XMP = b"XML:com.adobe.xmp\0"
_MOST_CHUNKS = 1000


def read_png(data: bytes) -> ImageHeader:
    """Return the header of PNG bytes that start with its signature.

    ``alpha``, ``animated``, ``icc`` and ``orientation`` tell of chunks that lie within ``data``. ``mode`` is ""
    where Pillow refuses: a wrong checksum, an unknown colour type, no header before the image data.
    """
    width = height = bits = 0
    mode = ""
    alpha = animated = icc = interlaced = False
    orientation = packet = None
    position = 8
    try:
        for _ in range(_MOST_CHUNKS):
            length, name = _chunk(data, position)
            if name in _OF_INTEREST:
                if name == _HEADER:
                    width, height, bits, colour, _method, kind, interlace, crc = _fields(data, position + 8)
                    mode = _MODES.get((bits, colour), "")
                    if kind or length != 13 or crc32(data[position + 4 : position + 21]) != crc:
                        mode = ""
                    alpha = colour in (4, 6)
                    interlaced = bool(interlace)
                elif name == _TRANSPARENCY:
                    alpha = True
                elif name == _PROFILE:
                    icc = True
                elif name == _EXIF:
                    orientation = exif_orientation(data[position + 8 : position + 8 + length])
                elif name == _ANIMATION:
                    animated = _count(data, position + 8)[0] > 1
                elif name == _TEXT:
                    if data.startswith(_XMP, position + 8):
                        packet = data[position + 8 : position + 8 + length]
                else:
                    break
            position += 12 + length
    except error:
        if position == 8:
            return ImageHeader("png", 0, 0, "", needs=33, length=33)
    if not width or not height:
        mode = ""
    if orientation is None:
        orientation = xmp_orientation(packet) or 1 if packet else 1
    header: ImageHeader = _new(
        ImageHeader,
        ("png", width, height, mode, bits, orientation, animated, interlaced, alpha, icc, 0, 0),
    )
    return header
