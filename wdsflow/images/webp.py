"""Headers of WebP images."""

from collections.abc import Callable, Iterator
from struct import Struct, error

from .header import ImageHeader

_riff = Struct("<4xI4x4s").unpack_from
_lossy = Struct("<3sHH").unpack_from
_lossless = Struct("<BI").unpack_from
_extended = Struct("<B3xHBHB").unpack_from
_ICC_FLAG, _ALPHA_FLAG, _EXIF_FLAG, _XMP_FLAG, _ANIMATION_FLAG = 0x20, 0x10, 0x08, 0x04, 0x02
# An animation has one a frame.
_MOST_WEBP_CHUNKS = 10_000
_START_CODE = b"\x9d\x01\x2a"


def read_webp(data: bytes) -> ImageHeader:
    """Return the header of bytes that start with ``RIFF....WEBP``.

    ``orientation`` stays 1: the EXIF chunk is at the end of the file, see ``webp_metadata``.
    ``length`` is claimed by the container; Pillow refuses a file that is shorter.
    """
    try:
        size, chunk = _riff(data)
        length = size + 8
        width = height = 0
        known = True
        alpha = animated = icc = False
        if chunk == b"VP8X":
            flags, wide, wider, high, higher = _extended(data, 20)
            width, height = (wide | wider << 16) + 1, (high | higher << 16) + 1
            alpha, animated, icc = (
                bool(flags & _ALPHA_FLAG),
                bool(flags & _ANIMATION_FLAG),
                bool(flags & _ICC_FLAG),
            )
        elif chunk == b"VP8L":
            signature, fields = _lossless(data, 20)
            width, height = (fields & 0x3FFF) + 1, (fields >> 14 & 0x3FFF) + 1
            alpha = bool(fields >> 28 & 1)
            known = signature == 0x2F
        elif chunk == b"VP8 ":
            start, across, down = _lossy(data, 23)
            width, height = across & 0x3FFF, down & 0x3FFF
            known = start == _START_CODE
        else:
            known = False
    except error:
        return ImageHeader("webp", 0, 0, "", needs=30, length=len(data) + 1)
    if not known or not width or not height:
        return ImageHeader("webp", 0, 0, "", length=length)
    mode = "RGBA" if alpha else "RGB"
    return ImageHeader(
        "webp", width, height, mode, animated=animated, alpha=alpha, icc=icc, length=length
    )


def webp_metadata(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, offset and content size of the ``EXIF`` and ``XMP `` chunks of a WebP file.

    Only chunks that the header announces are looked for.

    ``read(offset, size)`` returns bytes of the file, ``size`` is its own; of other chunks nothing
    but the heads is read.
    """
    start = read(12, 9)
    if start[:4] != b"VP8X" or len(start) < 9 or not start[8] & (_EXIF_FLAG | _XMP_FLAG):
        return
    at = 12
    for _ in range(_MOST_WEBP_CHUNKS):
        if at + 8 > size:
            return
        head = read(at, 8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] in (b"EXIF", b"XMP "):
            yield head[:4], at + 8, min(length, size - at - 8)
        at += 8 + length + length % 2
