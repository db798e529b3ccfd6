"""Decoding to RGB by libjpeg-turbo or Pillow: the scale, an upper bound of the memory, and the conversion."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from wdsflow.images.header import ImageHeader
from wdsflow.images.jpeg import load_simplejpeg
from wdsflow.images.pillow import no_programs, open_image

from ..base import Dropped, StageError

if TYPE_CHECKING:
    from PIL.Image import Image

    from .boxes import Box, Pixels

    Gate = Callable[[Image], "Target"]


Mode = Literal["fast", "exact", "reference"]
Target = int | tuple[int, int] | None

# libjpeg's smallest scale is 1/8.
_DCT_SCALE = 8
# Bytes a pixel in Pillow's memory; all other modes take 4.
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}
_CONVERTED = 4
# Transparency laid over a colour: a copy with alpha, and the result.
_ALPHA = 8
# 16 bits and more, scaled: copies in numpy.
_DEEP = 12
# Bytes a pixel that decoders keep next to the image: planes, canvas, earlier frames. Measured,
# rounded up.
_DECODER = {"webp": 13, "gif": 5, "avif": 16, "jp2": 28, "tiff": 8, "png": 0, "bmp": 0, "jpeg": 0}
_ANY_DECODER = 8
# Formats whose RGB images Pillow decodes into place.
_LEAN = frozenset(("jpeg", "png"))
# Bytes a column: rows that decoders work on.
_ROWS = 200
_FIXED = 1 << 20

Colour = tuple[int, int, int]
Alpha = Literal["drop", "keep"] | Colour
HighDepth = Literal["scale", "clip"]

_WITH_ALPHA = frozenset(("RGBA", "LA", "PA", "La", "RGBa"))
# I;16 and its like too.
_DEEP_MODES = ("I", "F")
# Values that are scaled at a time.
_AT_ONCE = 1 << 15

# (transpose, flip left and right, flip top and bottom), in this order. EXIF 2.32, tag 274.
_STEPS = {
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}

_MODES = frozenset(("RGB", "L"))

_MOST_REDUCED = 1 << 16
# Formats of which Pillow keeps only the pixels.
_PIXELS_ONLY = ("JPEG", "PNG")


def scale_of(
    width: int, height: int, target: Target, k: float = 2.0, most: int = _DCT_SCALE
) -> int:
    """Return the power of two by which an image can be reduced and still be ``k`` times the target on both sides.

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
    header: ImageHeader,
    mode: Mode,
    target: Target = None,
    *,
    k: float = 2.0,
    coefficients: int | None = None,
) -> int:
    """Return an upper bound of the memory for decoding, in bytes, including the result but not the encoded bytes.

    ``coefficients``: ``coefficient_bytes`` of a JPEG; without it a progressive file counts as one
    without subsampling. 0 if the header has no size.
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
    # 3 more for an array of the result.
    return (each + 3) * pixels + (coefficients or 0) + working


def to_rgb(image: "Image", alpha: Alpha, high_depth: HighDepth) -> "Image":
    """Return an RGB image, the same object if it is already RGB.

    ``alpha`` "drop" keeps the colours of transparent pixels, as ``convert("RGB")`` does; a colour
    replaces them; "keep" returns RGBA if any pixel may be transparent.
    ``high_depth`` "clip" is ``convert("RGB")``; "scale" maps the range of values to 0..255: see
    ``scaled``; their transparency is ignored.
    """
    from PIL import Image as Images

    if high_depth == "scale" and image.mode[:1] in _DEEP_MODES:
        return Images.fromarray(scaled(image)).convert("RGB")
    if alpha != "drop" and (image.mode in _WITH_ALPHA or "transparency" in image.info):
        clear = image.convert("RGBA")
        if alpha == "keep":
            return clear
        result = Images.new("RGB", image.size, alpha)
        result.paste(clear, mask=clear)
        return result
    return plain_rgb(image)


def plain_rgb(image: "Image") -> "Image":
    """Convert as ``convert("RGB")`` does, without its warning and without copying an RGB image."""
    if image.mode == "RGB":
        return image
    # convert() would only look up the new transparent colour, and warn if there are many: no pixel
    # depends on it.
    image.info.pop("transparency", None)
    return image.convert("RGB")


def scaled(image: "Image") -> "Pixels":
    """Return an array (height, width) of uint8 from an image of one channel with more than 8 bits.

    Integers from 0 to 65535 are 16-bit levels, floats from 0 to 1 are shares of white, floats from
    0 to 255 are levels; any other range is stretched from its lowest to its highest value. Values
    that are not finite are black.
    """
    import numpy as np

    values = np.asarray(image)
    known = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    if image.mode[:1] == "I":
        floor, span = (0.0, 65535.0) if low >= 0 and high <= 65535 else (low, high - low)
    elif low >= 0 and high <= 255:
        floor, span = 0.0, 1.0 if high <= 1 else 255.0
    else:
        floor, span = low, high - low
    result = np.zeros(values.shape, np.uint8)
    step = max(1, _AT_ONCE // max(values.shape[1], 1))
    for row in range(0, values.shape[0], step):
        # A signalling NaN is a NaN.
        with np.errstate(invalid="ignore"):
            part = values[row : row + step].astype(np.float64)
        part = np.where(np.isfinite(part), part, floor)
        result[row : row + step] = np.clip(
            (part - floor) * (255 / span if span else 0.0) + 0.5, 0, 255
        )
    return result


def upright(pixels: "Pixels", box: "Box", orientation: int) -> "tuple[Pixels, Box]":
    """Return an array (height, width, channels) and its box, rotated; numbers outside of 2 to 8 change nothing."""
    if orientation not in _STEPS:
        return pixels, box
    import numpy as np

    transpose, across, down = _STEPS[orientation]
    left, top, right, bottom = box
    if transpose:
        pixels = pixels.transpose(1, 0, 2)
        left, top, right, bottom = top, left, bottom, right
    height, width = pixels.shape[:2]
    if across:
        pixels = pixels[:, ::-1]
        left, right = width - right, width - left
    if down:
        pixels = pixels[::-1]
        top, bottom = height - bottom, height - top
    return np.ascontiguousarray(pixels), (left, top, right, bottom)


def decode_jpeg(data: bytes, header: ImageHeader, scale: int) -> "tuple[Pixels, Box] | None":
    """Return pixels (height, width, 3) at 1 / ``scale`` of the size, and the part of them that is the picture.

    None if Pillow is needed: damage, CMYK, no simplejpeg. ``scale`` is 1, 2, 4 or 8.
    """
    decode = load_simplejpeg()
    if decode is None or header.mode not in _MODES:
        return None
    width, height = -(-header.width // scale), -(-header.height // scale)
    smallest = {"min_width": width, "min_height": height} if scale > 1 else {}
    try:
        pixels: Pixels = decode(data, "RGB", strict=True, **smallest)
    except ValueError:
        return None
    if pixels.shape != (height, width, 3):
        return None
    return pixels, (0, 0, header.width / scale, header.height / scale)


def decode_with_pillow(
    data: bytes,
    mode: Mode,
    k: float,
    alpha: Alpha,
    high_depth: HighDepth,
    gate: "Gate",
    *,
    upright: bool = False,
) -> "tuple[Image, Box, int]":
    """Return the first frame as an RGB image, the part of it that is the picture, and the EXIF orientation.

    In mode "fast" a JPEG is decoded at a smaller scale, and others are averaged down after
    decoding. ``gate`` is called with the image before any pixel is decoded: it returns the target,
    or raises. The orientation is 1 unless ``upright``. Raises StageError, or Dropped if Pillow
    refuses the number of pixels.
    """
    with _errors_named():
        image = open_image(data)
    target = gate(image)
    with _errors_named():
        width, height = image.size
        jpeg = image.format in ("JPEG", "MPO")
        scale = (
            scale_of(width, height, target, k, 8 if jpeg else _MOST_REDUCED)
            if mode == "fast"
            else 1
        )
        if jpeg and scale > 1 and image.draft(None, (width // scale, height // scale)) is None:
            scale = 1
        with no_programs():
            image.load()
        result = plain_rgb(image) if mode == "reference" else to_rgb(image, alpha, high_depth)
        if scale > 1 and not jpeg:
            result = result.reduce(scale)
        elif result is image and image.format not in _PIXELS_ONLY:
            # It would keep its decoder and the file alive.
            result = image.copy()
        return (
            result,
            (0, 0, width / scale, height / scale),
            orientation_of(image) if upright else 1,
        )


@contextmanager
def _errors_named() -> "Iterator[None]":
    """Turn Pillow's errors into StageError, or Dropped if it refuses the number of pixels."""
    from PIL import Image

    try:
        yield
    except Image.DecompressionBombError as error:
        raise Dropped("too-many-pixels") from error
    except Exception as error:
        slug = "truncated" if "truncated" in str(error).lower() else "undecodable"
        raise StageError(slug, str(error)[:500] or type(error).__name__) from error


def orientation_of(image: "Image") -> int:
    """Return the EXIF orientation, 1 if there is none. Call it after decoding: some formats store it at their end."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # noqa: BLE001 - damaged EXIF does not make a picture unusable
        return 1
