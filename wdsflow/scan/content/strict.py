"""Checks that are stricter than Pillow's decoders: they find damage that Pillow passes over."""

from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any, Literal
from zlib import crc32

from .image_content import JpegTables

Strict = Literal["sound", "damaged", "cut", "unknown"]

_chunk = Struct(">I4s").unpack_from

# Warnings of libjpeg that valid files raise too: odd version numbers and unused parameters.
_CORRUPT, _CUT = "Corrupt JPEG data", "Premature end of JPEG file"
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
_COLORSPACES = {"CMYK": "CMYK"}
_GREY, _MOST_VISIBLE = 128, 125


def decode_jpeg_strictly(
    decode: Callable[..., Any], data: bytes, mode: str, tables: JpegTables | None
) -> tuple[str, bool, bool]:
    """Decode a JPEG at 1/8 of its size, which reads every entropy-coded byte all the same.

    Returns libjpeg's warning or error, "" if it has none, so that Pillow decodes it too; whether the pixels show
    damage even so; and whether all pixels may be one colour.

    libjpeg notices damage only where the number of blocks comes out wrong. If it comes out right by chance, the
    brightness of all later blocks is still off by some amount, as each is stored as a difference from the last one. A
    mean brightness that no 8-bit picture has is proof: it is made visible by decoding with a smaller quantization step
    for the mean, so that nothing is clipped.
    """
    place, wide, step = tables.mean if tables is not None else (0, False, 0)
    visible, limit = _visible_step(step) if place else (0, 0.0)
    changed = data
    if visible:
        width = 2 if wide else 1
        changed = b"".join((data[:place], visible.to_bytes(width, "big"), memoryview(data)[place + width :]))
    try:
        pixels = decode(changed, _COLORSPACES.get(mode, "GRAY"), min_height=1, min_width=1, strict=True)
    except ValueError as exception:
        return str(exception), False, False
    low, high = int(pixels.min()), int(pixels.max())
    impossible = visible > 0 and (high - _GREY > limit or _GREY - low > limit)
    return "", impossible, low == high


@cache
def _visible_step(step: int) -> tuple[int, float]:
    """Return a step of the mean that shows impossible means without clipping them, and the limit of what is possible.

    A block's mean coefficient is within -1024 and 1016 for 8-bit samples (ITU T.81, annex A.3.3, less the level
    shift). Two steps and 4 grey levels of slack are left for encoders that round in their own way. The limit is in
    grey levels of the changed picture, at 1/8 level a step; (0, 0.0) where there is no room.
    """
    if step < 1:
        return 0, 0.0
    possible = (1024 + 32) / step + 2
    for visible in range(8, 0, -1):
        limit = possible * visible / 8 + 1
        if limit <= _MOST_VISIBLE:
            return visible, limit
    return 0, 0.0


def judge_warning(message: str, decode: Callable[..., object], data: bytes, mode: str) -> Strict:
    """Tell what a warning of libjpeg means for a JPEG that Pillow decodes.

    Damage, or a kind of JPEG that simplejpeg does not know: that it refuses without ``strict`` too.
    """
    if _CUT in message:
        return "cut"
    if message.startswith(_CORRUPT):
        return "damaged"
    if any(benign in message for benign in _BENIGN):
        return "unknown"
    try:
        decode(data, _COLORSPACES.get(mode, "GRAY"), min_height=1, min_width=1, strict=False)
    except ValueError:
        return "unknown"
    return "damaged"


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
