"""Headers of PNG images."""

from struct import Struct, error
from zlib import crc32

from .header import ImageHeader, make_header, more_bytes
from .orientation import exif_orientation, xmp_orientation

_chunk = Struct(">I4s").unpack_from
_start = Struct(">I4sIIBBBBBI").unpack_from
_count = Struct(">I").unpack_from

# Pillow's mode by colour type and bits a channel; others are refused.
_PNG_MODES = {
    0: {1: "1", 2: "L", 4: "L", 8: "L", 16: "I;16"},
    2: {8: "RGB", 16: "RGB"},
    3: {1: "P", 2: "P", 4: "P", 8: "P"},
    4: {8: "LA", 16: "RGBA"},
    6: {8: "RGBA", 16: "RGBA"},
}
_WITH_ALPHA = (4, 6)
_HEADER, _DATA, _END_CHUNK, _FRAME_DATA = b"IHDR", b"IDAT", b"IEND", b"fdAT"
_TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT = b"tRNS", b"iCCP", b"eXIf", b"acTL", b"iTXt"
_OF_INTEREST = frozenset(
    (_DATA, _END_CHUNK, _FRAME_DATA, _TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT)
)
_XMP_KEY = b"XML:com.adobe.xmp\0"
_MOST_PNG_CHUNKS = 1000


def read_png(data: bytes) -> ImageHeader:
    """Return the header of PNG bytes that start with its signature.

    ``alpha``, ``animated``, ``icc`` and ``orientation`` are of chunks within ``data``. ``mode``
    is empty where Pillow refuses: a wrong checksum, an unknown colour type, no header before the
    image data.
    """
    position = 8
    try:
        length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(
            data, position
        )
        if name != _HEADER:
            position = _find_header(data)
            length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(
                data, position
            )
    except error:
        needs = more_bytes(len(data)) if position > 8 else 33
        return ImageHeader("png", 0, 0, "", needs=needs, length=len(data) + 1)
    mode = _PNG_MODES.get(colour, {}).get(bits, "")
    if (
        length != 13
        or kind
        or not width
        or not height
        or crc32(data[position + 4 : position + 21]) != crc
    ):
        mode = ""
    position += 12 + length
    alpha, animated, icc, orientation = colour in _WITH_ALPHA, False, False, 1
    try:
        length, name = _chunk(data, position)
        if name != _DATA:
            transparent, animated, icc, orientation = _read_chunks(data, position)
            alpha = alpha or transparent
    except error:
        pass
    # In the order of ``ImageHeader``; the last two: it needs no more bytes, and its length is
    # unknown.
    facts = (
        "png",
        width,
        height,
        mode,
        bits,
        orientation,
        animated,
        interlace > 0,
        alpha,
        icc,
        0,
        0,
    )
    return make_header(ImageHeader, facts)


def _find_header(data: bytes) -> int:
    """Return where the header chunk starts in a file that has other chunks before it."""
    position = 8
    for _ in range(_MOST_PNG_CHUNKS):
        length, name = _chunk(data, position)
        if name == _HEADER:
            break
        position += 12 + length
    return position


def _read_chunks(data: bytes, position: int) -> tuple[bool, bool, bool, int]:
    """Return transparency, animation, colour profile and orientation of a PNG.

    Only chunks before the image data are read.
    """
    alpha = animated = icc = False
    orientation, packet = None, b""
    try:
        for _ in range(_MOST_PNG_CHUNKS):
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
                    if data.startswith(_XMP_KEY, place):
                        packet = data[place : place + length]
                else:
                    break
            position += 12 + length
    except error:
        pass
    if orientation is None:
        orientation = xmp_orientation(packet)
    return alpha, animated, icc, 1 if orientation is None else orientation
