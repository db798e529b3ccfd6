"""Decoding by libjpeg-turbo, straight into an array, and by Pillow, which reads every format.

Imports numpy: import this module where it is needed.
"""

from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from wdsflow.images.header import ImageHeader
from wdsflow.images.libjpeg import load_simplejpeg

from ..base import Dropped, StageError
from .convert import Alpha, HighDepth, plain_rgb, to_rgb
from .peak import Mode, Target, scale_of
from .resample import Box

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    Gate = Callable[[Image], Target]


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


def upright(pixels: Any, box: Box, orientation: int) -> tuple[Any, Box]:
    """Return an array (height, width, channels) and its box, turned; numbers outside of 2 to 8 change nothing."""
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


_MODES = frozenset(("RGB", "L"))


def decode_jpeg(data: bytes, header: ImageHeader, scale: int) -> "tuple[NDArray[np.uint8], Box] | None":
    """Return pixels (height, width, 3) at 1 / ``scale`` of the size, and which part of them is the picture.

    None for what Pillow has to judge: damage, CMYK, no simplejpeg. ``scale`` is 1, 2, 4 or 8.
    """
    decode = load_simplejpeg()
    if decode is None or header.mode not in _MODES:
        return None
    width, height = -(-header.width // scale), -(-header.height // scale)
    smallest = {"min_width": width, "min_height": height} if scale > 1 else {}
    try:
        pixels = decode(data, "RGB", strict=True, **smallest)
    except ValueError:
        return None
    if pixels.shape != (height, width, 3):
        return None
    return pixels, (0, 0, header.width / scale, header.height / scale)


# Opened by running a program (Ghostscript), or by opening what they contain.
_NEVER_OPENED = frozenset(("EPS", "IPTC"))
_MOST_REDUCED = 1 << 16
_ORIENTATION = 0x0112
_JPEG = ("JPEG", "MPO")
_LEAN = ("JPEG", "PNG")  # formats of which Pillow keeps nothing but the pixels
Slug = Literal["not-an-image", "truncated", "undecodable"]


@cache
def _formats() -> tuple[str, ...]:
    """Return Pillow's formats, the usual ones first."""
    from PIL import Image

    Image.init()
    usual = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
    return usual + tuple(name for name in Image.ID if name not in usual and name not in _NEVER_OPENED)


def decode(
    data: bytes,
    mode: Mode,
    k: float,
    alpha: Alpha,
    high_depth: HighDepth,
    gate: "Gate",
    *,
    upright: bool = False,
) -> tuple["Image", Box, int]:
    """Return the first frame as an RGB image, which part of it is the picture, and its EXIF orientation if asked.

    In mode "fast" a JPEG is decoded at a smaller scale, and others are averaged down after decoding. ``gate`` is called
    with the image before any pixel is decoded: it returns the target, or raises. Raises StageError, and Dropped if
    Pillow refuses the number of pixels.
    """
    from PIL import Image

    with _errors_named():
        image: Image.Image = Image.open(BytesIO(data), formats=_formats())
    target = gate(image)
    with _errors_named():
        width, height = image.size
        jpeg = image.format in _JPEG
        scale = scale_of(width, height, target, k, 8 if jpeg else _MOST_REDUCED) if mode == "fast" else 1
        if jpeg and scale > 1 and image.draft(None, (width // scale, height // scale)) is None:
            scale = 1
        image.load()
        result = plain_rgb(image) if mode == "reference" else to_rgb(image, alpha, high_depth)
        if scale > 1 and not jpeg:
            result = result.reduce(scale)
        elif result is image and image.format not in _LEAN:
            result = image.copy()  # it would keep its decoder, and that the file
        return result, (0, 0, width / scale, height / scale), _orientation(image) if upright else 1


@contextmanager
def _errors_named() -> "Iterator[None]":
    """Turn what Pillow raises into StageError, or Dropped where it refuses the number of pixels."""
    from PIL import Image

    try:
        yield
    except Image.DecompressionBombError as error:
        raise Dropped("too-many-pixels") from error
    except Exception as error:
        raise StageError(_slug(error), str(error)[:500] or type(error).__name__) from error


def _orientation(image: "Image") -> int:
    """Return the EXIF orientation, 1 where there is none; asked after decoding, as some formats have it at their end."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - a picture need not go because of its damaged EXIF
        return 1


def _slug(error: Exception) -> Slug:
    return "truncated" if "truncated" in str(error).lower() else "undecodable"
