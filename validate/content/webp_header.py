"""The header of a WebP file (RFC 9649)."""

from struct import Struct, error

from .header import ImageHeader

_riff = Struct("<4xI4x4s").unpack_from
_lossy = Struct("<HH").unpack_from
_lossless = Struct("<BI").unpack_from
_extended = Struct("<B3xHBHB").unpack_from
_ICC, _ALPHA, _ANIMATION = 0x20, 0x10, 0x02
_START_CODE = b"\x9d\x01\x2a"


def read_webp(data: bytes) -> ImageHeader:
    """Return the header of bytes that start with ``RIFF....WEBP``.

    ``orientation`` stays 1: the EXIF chunk lies at the end of the file. ``length`` is what the container claims;
    Pillow refuses a file that is shorter.
    """
    try:
        size, chunk = _riff(data)
        length = size + 8
        if chunk == b"VP8X":
            flags, wide, wider, high, higher = _extended(data, 20)
            width, height = (wide | wider << 16) + 1, (high | higher << 16) + 1
            alpha, animated, icc = bool(flags & _ALPHA), bool(flags & _ANIMATION), bool(flags & _ICC)
        elif chunk == b"VP8L":
            signature, fields = _lossless(data, 20)
            width, height = (fields & 0x3FFF) + 1, (fields >> 14 & 0x3FFF) + 1
            alpha, animated, icc = bool(fields >> 28 & 1), False, False
            if signature != 0x2F:
                return ImageHeader("webp", 0, 0, "", length=length)
        elif chunk == b"VP8 " and data.startswith(_START_CODE, 23):
            width, height = (value & 0x3FFF for value in _lossy(data, 26))
            alpha = animated = icc = False
        else:
            return ImageHeader("webp", 0, 0, "", length=length)
    except error:
        return ImageHeader("webp", 0, 0, "", needs=32, length=len(data) + 1)
    mode = ("RGBA" if alpha else "RGB") if width and height else ""
    return ImageHeader("webp", width, height, mode, animated=animated, alpha=alpha, icc=icc, length=length)
