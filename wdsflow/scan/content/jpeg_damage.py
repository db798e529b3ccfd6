"""Damage in the image data of a JPEG, by libjpeg's warnings and by means that no picture has."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal

from wdsflow.scan.content.jpeg_tables import JpegTables

if TYPE_CHECKING:
    from numpy import ndarray

Strict = Literal["sound", "damaged", "cut", "unknown"]

_CORRUPT = "Corrupt JPEG data"
_CUT = "Premature end of JPEG file"
# Warnings of libjpeg that valid files raise too: odd version numbers and unused parameters.
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
# Grey levels: the middle, and the largest distance from it that is not clipped.
_GREY = 128
_MOST_VISIBLE = 125


def decode_jpeg_strictly(
    decode: Callable[..., "ndarray"], data: bytes, tables: JpegTables | None
) -> tuple[str, bool, bool]:
    """Decode a JPEG at 1/8 of its size, which reads every entropy-coded byte all the same.

    Returns libjpeg's warning or error, "" if it has none; whether the pixels show damage even so;
    and whether all pixels may be one colour.

    libjpeg notices damage only where the number of blocks comes out wrong. If it comes out right by
    chance, the brightness of all later blocks is still off by some amount, as each is stored as a
    difference from the last one. A mean brightness that no 8-bit picture has is proof: a smaller
    quantization step for the mean shows it without clipping.
    """
    # Offset of the step for means in the file, whether it has two bytes, the step.
    offset, wide, step = tables.mean if tables is not None else (0, False, 0)
    visible, limit = _visible_step(step) if offset else (0, 0.0)
    changed = data
    if visible:
        width = 2 if wide else 1
        rest = memoryview(data)[offset + width :]
        changed = b"".join((data[:offset], visible.to_bytes(width, "big"), rest))
    try:
        pixels = decode(changed, strict=True)
    except ValueError as exception:
        return str(exception), False, False
    low, high = int(pixels.min()), int(pixels.max())
    is_damaged = visible > 0 and (high - _GREY > limit or _GREY - low > limit)
    return "", is_damaged, low == high


@cache
def _visible_step(step: int) -> tuple[int, float]:
    """Return a quantization step that shows impossible block means unclipped, and their limit.

    Means within the limit are possible.

    A block's mean coefficient is within -1024 and 1016 for 8-bit samples (ITU T.81, annex A.3.3,
    less the level shift). Two steps and 4 grey levels of slack are left for encoders that round in
    their own way. The limit is in grey levels of the changed picture, at 1/8 level a step; (0, 0.0)
    where there is no room.
    """
    possible = (1024 + 32) / step + 2 if step >= 1 else _MOST_VISIBLE * 8
    for visible in range(8, 0, -1):
        limit = possible * visible / 8 + 1
        if limit <= _MOST_VISIBLE:
            return visible, limit
    return 0, 0.0


def judge_warning(message: str, decode: Callable[..., object], data: bytes) -> Strict:
    """Return the meaning of a warning of libjpeg for a JPEG that Pillow decodes.

    Damage, or an unknown kind of JPEG: simplejpeg refuses that without ``strict`` too.
    """
    if _CUT in message:
        return "cut"
    if message.startswith(_CORRUPT):
        return "damaged"
    if any(benign in message for benign in _BENIGN):
        return "unknown"
    try:
        decode(data, strict=False)
    except ValueError:
        return "unknown"
    return "damaged"
