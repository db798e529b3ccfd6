"""Decoding to RGB by libjpeg-turbo or Pillow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wdsflow.images.header import ImageHeader
from wdsflow.images.jpeg import load_simplejpeg
from wdsflow.images.pillow import no_programs, open_image

from ..base import Dropped, StageError
from .decoding_scale import Mode, Target, scale_of
from .rgb import Alpha, HighDepth, plain_rgb, to_rgb
from .upright import orientation_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from .boxes import Box, Pixels

    Gate = Callable[[Image], Target]

# Modes that libjpeg-turbo decodes to RGB.
_MODES = frozenset(("RGB", "L"))
_MOST_REDUCED_JPEG = 8
_MOST_REDUCED = 1 << 16
# Formats of which Pillow keeps only the pixels.
_PIXELS_ONLY = ("JPEG", "PNG")


def decode_jpeg(data: bytes, header: ImageHeader, scale: int) -> "tuple[Pixels, Box] | None":
    """Return pixels (height, width, 3) at 1 / ``scale`` of the size, and the picture's box.

    The box is the part of the pixels that is the picture.

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
    """Return the first frame as an RGB image, its box, and the EXIF orientation.

    The box is the part of the image that is the picture.

    In mode "fast" a JPEG is decoded at a smaller scale, and others are averaged down after
    decoding. ``gate`` is called with the image before any pixel is decoded: it returns the target,
    or raises. The orientation is 1 unless ``upright``. Raises StageError, or Dropped if Pillow
    refuses the number of pixels.
    """
    with _as_stage_errors():
        image = open_image(data)
    target = gate(image)
    with _as_stage_errors():
        width, height = image.size
        jpeg = image.format in ("JPEG", "MPO")
        scale = 1
        if mode == "fast":
            most = _MOST_REDUCED_JPEG if jpeg else _MOST_REDUCED
            scale = scale_of(width, height, target, k, most)
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
        box = (0, 0, width / scale, height / scale)
        return result, box, orientation_of(image) if upright else 1


@contextmanager
def _as_stage_errors() -> "Iterator[None]":
    """Turn Pillow's errors into StageError, or Dropped if it refuses the number of pixels."""
    from PIL import Image

    try:
        yield
    except Image.DecompressionBombError as error:
        raise Dropped("too-many-pixels") from error
    except Exception as error:
        slug = "truncated" if "truncated" in str(error).lower() else "undecodable"
        raise StageError(slug, str(error)[:500] or type(error).__name__) from error
