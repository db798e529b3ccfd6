"""An upper bound of the memory that decoding an image takes."""

from wdsflow.images.header import ImageHeader

from .decoding_scale import Mode, Target, scale_of

# Bytes a pixel in Pillow's memory; all other modes take 4.
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}
_CONVERTED = 4
# Transparency laid over a colour: a copy with alpha, and the result.
_ALPHA = 8
# 16 bits and more, scaled: copies in numpy.
_DEEP = 12
# Bytes a pixel that decoders keep next to the image:
# planes, canvas, earlier frames. Measured, rounded up.
_DECODER = {"webp": 13, "gif": 5, "avif": 16, "jp2": 28, "tiff": 8, "png": 0, "bmp": 0, "jpeg": 0}
_ANY_DECODER = 8
# Formats whose RGB images Pillow decodes into place.
_LEAN = frozenset(("jpeg", "png"))
# Bytes a column: rows that decoders work on.
_ROWS = 200
_FIXED = 1 << 20


def peak_bytes(
    header: ImageHeader,
    mode: Mode,
    target: Target = None,
    *,
    k: float = 2.0,
    coefficients: int | None = None,
) -> int:
    """Return an upper bound of the memory for decoding, in bytes.

    It includes the result, but not the encoded bytes.

    ``coefficients``: ``coefficient_bytes`` of a JPEG; without it a progressive file counts as one
    without subsampling. 0 if the header has no size.
    """
    width, height = header.width, header.height
    working = _ROWS * width + _FIXED if width else 0
    pixels = width * height
    if coefficients is None:
        coefficients = 0
        if header.format == "jpeg" and header.progressive:
            coefficients = (8 if header.mode == "CMYK" else 6) * pixels
    if header.format == "jpeg" and mode != "reference":
        scale = scale_of(width, height, target, k) if mode == "fast" else 1
        reduced_pixels = -(-width // scale) * -(-height // scale)
        bytes_per_pixel = 3 + 4 if header.mode in {"RGB", "L"} else 4 + 4 + 3
        return bytes_per_pixel * reduced_pixels + coefficients + working
    bytes_per_pixel = _STORED.get(header.mode, 4) + _DECODER.get(header.format, _ANY_DECODER)
    if header.alpha and mode != "reference":
        bytes_per_pixel += _ALPHA
    elif header.mode[:1] in {"I", "F"} and mode != "reference":
        bytes_per_pixel += _DEEP
    elif header.mode != "RGB" or header.format not in _LEAN:
        bytes_per_pixel += _CONVERTED
    # 3 more for an array of the result.
    return (bytes_per_pixel + 3) * pixels + coefficients + working
