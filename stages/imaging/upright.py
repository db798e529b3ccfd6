"""Rotation of images by their EXIF orientation."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

    from .boxes import Box, Pixels

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


def upright(pixels: "Pixels", box: "Box", orientation: int) -> "tuple[Pixels, Box]":
    """Return an array (height, width, channels) and its box, rotated by an EXIF orientation.

    Orientations outside of 2 to 8 change nothing.
    """
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


def orientation_of(image: "Image") -> int:
    """Return the EXIF orientation, 1 if there is none.

    Call it after decoding: some formats store the orientation at their end.
    """
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # noqa: BLE001 - damaged EXIF does not make a picture unusable
        return 1
