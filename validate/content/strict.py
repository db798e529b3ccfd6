"""Checks that are stricter than Pillow's decoders: they find damage that Pillow passes over."""

from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any, Literal
from zlib import crc32

from .jpeg_tables import JpegTables

Strict = Literal["sound", "damaged", "cut", "unknown"]

_chunk = Struct(">I4s").unpack_from

# Warnings of libjpeg that sound files raise too: odd version numbers and unused parameters.
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
_MOST_SCANS = 100
_MOST_SCANNED = 4_000_000_000  # pixels times scans: a small progressive file can keep a decoder busy for hours
_GREY, _MOST_VISIBLE = 128, 125


@cache
def load_simplejpeg() -> Callable[..., Any] | None:
    """Return simplejpeg's decoder, None where it is not installed."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        return None
    return decode_jpeg  # type: ignore[no-any-return]


def keeps_busy(data: bytes, pixels: int) -> bool:
    """Tell whether a progressive JPEG has so many scans that decoding it would take minutes or hours."""
    scans = data.count(b"\xff\xda")
    return scans > _MOST_SCANS and scans * pixels > _MOST_SCANNED


def decode_jpeg_strictly(
    decode: Callable[..., Any], data: bytes, mode: str, tables: JpegTables | None
) -> tuple[Strict, bool, bool]:
    """Decode a JPEG at 1/8 of its size, which reads every entropy-coded byte all the same.

    Returns the verdict; whether libjpeg decoded it without a warning, so that Pillow would too; and whether all
    pixels may be one colour. "unknown" stands for kinds of JPEG that simplejpeg cannot decode.

    libjpeg notices damage only where the number of blocks comes out wrong. Where it comes out right by chance,
    the brightness of all later blocks is still off by some amount, as each is stored as a difference from the
    last one. A mean brightness that no 8-bit picture has is proof: it is made visible by decoding with a smaller
    quantization step for the mean, so that nothing is clipped.
    """
    step, limit = 0, 0.0
    if tables is not None and tables.luminance_place:
        step, limit = _visible_step(tables.luminance_step)
    changed = tables.with_luminance_step(data, step) if step and tables is not None else data
    colorspace = "CMYK" if mode == "CMYK" else "GRAY"
    try:
        pixels = decode(changed, colorspace, min_height=1, min_width=1, strict=True)
    except ValueError as exception:
        return _why(str(exception), decode, data, colorspace), False, False
    low, high = int(pixels.min()), int(pixels.max())
    possible = not step or (high - _GREY <= limit and _GREY - low <= limit)
    return "sound" if possible else "damaged", True, low == high


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


def _why(message: str, decode: Callable[..., Any], data: bytes, colorspace: str) -> Strict:
    """Tell damage from a kind of JPEG that the decoder does not know: that it refuses without ``strict`` too."""
    if any(benign in message for benign in _BENIGN):
        return "unknown"
    try:
        decode(data, colorspace, min_height=1, min_width=1, strict=False)
    except ValueError:
        return "unknown"
    return "cut" if "Premature end" in message else "damaged"


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
