"""The pixels of a PIL image as an array.

Imports numpy: import this module where it is needed.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

    from .boxes import Pixels

# Pixels that are converted at a time.
_STRIP = 1 << 15


def to_array(image: "Image") -> "Pixels":
    """Return the pixels of a PIL image of one byte a channel as an array.

    Its shape is (height, width, channels), or (height, width) if the image has no channel axis.

    Made in strips: ``np.array(image)`` takes twice the time, and three times the memory of the
    result.
    """
    width, height = image.size
    rows = max(1, _STRIP // width)
    if rows >= height:
        return np.array(image)
    first = np.asarray(image.crop((0, 0, width, rows)))
    pixels = np.empty((height, *first.shape[1:]), np.uint8)
    pixels[:rows] = first
    for top in range(rows, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return pixels
