"""Lines of text, cut out of pictures with EasyOCR's own functions.

Imports numpy: import this module where it is needed.
"""

from collections.abc import Iterator
from typing import Any

from .ocr import HEIGHT, Boxes, Line, Maps, boxes_of
from .ocr_canvas import Pixels


def lines_of(pixels: Pixels, maps: Maps) -> list[Line]:
    """Return the lines in a picture (height, width, 3), in which the detector found ``maps``.

    They are cut out of the picture as it is, also where that is smaller than the one it was made of.
    """
    height, width = pixels.shape[:2]
    boxes = boxes_of(maps._replace(width=width, height=height, ratio=1.0))
    return [Line(*line) for line in _cut(pixels, boxes)]


def _cut(pixels: Pixels, boxes: Boxes) -> Iterator[tuple[Any, int]]:
    """Yield lines of text in grey, and the width that each is padded to."""
    import cv2
    from easyocr.utils import get_image_list

    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    for left, right, top, bottom in boxes.upright:
        if min(right, width) > max(left, 0) and min(bottom, height) > max(top, 0):
            cut, padded = get_image_list([[left, right, top, bottom]], [], grey, model_height=HEIGHT)
            yield from ((line, int(padded)) for _, line in cut)
    for quad in boxes.tilted:
        if all(abs(x - u) + abs(y - v) >= 2 for (x, y), (u, v) in zip(quad, [*quad[1:], quad[0]], strict=True)):
            cut, padded = get_image_list([], [quad], grey, model_height=HEIGHT)
            yield from ((line, int(padded)) for _, line in cut)
