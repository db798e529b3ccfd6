"""How large an image has to be decoded, and how much memory that takes, by its header alone."""

from typing import Literal

from wdsflow.images.header import ImageHeader

Mode = Literal["fast", "exact", "reference"]
Target = int | tuple[int, int] | None

_DCT_SCALE = 8  # libjpeg's smallest
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # bytes a pixel in Pillow's memory; all other modes take 4
_CONVERTED = 4
_ALPHA = 8  # transparency laid over a colour: a copy with alpha, and the result
_DEEP = 12  # 16 bits and more, scaled: copies in numpy
# Bytes a pixel that decoders keep next to the image: planes, canvas, earlier frames. Measured, rounded up.
_DECODER = {"webp": 13, "gif": 5, "avif": 16, "jp2": 28, "tiff": 8, "png": 0, "bmp": 0, "jpeg": 0}
_ANY_DECODER = 8
_LEAN = frozenset(("jpeg", "png"))  # formats whose RGB images Pillow decodes into place
_ROWS = 200  # bytes a column: rows that decoders work on
_FIXED = 1 << 20


def scale_of(width: int, height: int, target: Target, k: float = 2.0, most: int = _DCT_SCALE) -> int:
    """Return by which power of two an image may be made smaller and still be ``k`` times the target on both sides.

    ``target`` is (height, width) in pixels, or one number for both.

    >>> scale_of(4000, 3000, 224), scale_of(640, 480, 224), scale_of(4000, 3000, None)
    (4, 1, 1)
    """
    if target is None:
        return 1
    down, across = (target, target) if isinstance(target, int) else target
    scale = 1
    while 2 * scale <= most and width >= 2 * scale * k * across and height >= 2 * scale * k * down:
        scale *= 2
    return scale


def peak_bytes(
    header: ImageHeader, mode: Mode, target: Target = None, *, k: float = 2.0, coefficients: int | None = None
) -> int:
    """Return an upper bound of the memory, in bytes, that decoding takes next to the encoded bytes, result included.

    ``coefficients``: what ``coefficient_bytes`` says of a JPEG; without it a progressive file counts as one
    without subsampling. 0 where the header does not tell the size.
    """
    width, height = header.width, header.height
    working = _ROWS * width + _FIXED if width else 0
    pixels = width * height
    if header.format == "jpeg" and coefficients is None:
        coefficients = (8 if header.mode == "CMYK" else 6) * pixels if header.progressive else 0
    if header.format == "jpeg" and mode != "reference":
        scale = scale_of(width, height, target, k) if mode == "fast" else 1
        each = 3 + 4 if header.mode in {"RGB", "L"} else 4 + 4 + 3
        return each * -(-width // scale) * -(-height // scale) + (coefficients or 0) + working
    each = _STORED.get(header.mode, 4) + _DECODER.get(header.format, _ANY_DECODER)
    if header.alpha and mode != "reference":
        each += _ALPHA
    elif header.mode[:1] in {"I", "F"} and mode != "reference":
        each += _DEEP
    elif header.mode != "RGB" or header.format not in _LEAN:
        each += _CONVERTED
    return (each + 3) * pixels + (coefficients or 0) + working  # 3 more for an array of the result
