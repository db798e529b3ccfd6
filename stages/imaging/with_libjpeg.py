"""Decoding JPEGs with libjpeg-turbo, without Pillow in between: straight into an array, at a smaller scale."""

from typing import TYPE_CHECKING

from wdsflow.images.header import ImageHeader
from wdsflow.images.libjpeg import load_simplejpeg

from .pixel_arrays import Box

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
