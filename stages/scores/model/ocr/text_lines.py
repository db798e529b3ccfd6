"""Lines of text, cut out of a picture."""

import math
from typing import TYPE_CHECKING, NamedTuple

from .text_boxes import Boxes, Maps, Point, TextBoxes, boxes_on_canvas

if TYPE_CHECKING:
    from ..pictures.prepare import Pixels

# Pixels of a line of text.
HEIGHT = 64


class TextLine(NamedTuple):
    """A line of text cut out of a picture, in grey.

    Attributes:
        pixels: an array of shape (height, width).
        width: the width to which it is padded.
    """

    pixels: "Pixels"
    width: int


class UncutLines(NamedTuple):
    """A canvas and the boxes on it.

    Its lines are cut out when they are read: see ``TextDetector``.

    Attributes:
        pixels: an array of shape (height, width, 3).
        boxes: in pixels of the canvas.
    """

    pixels: "Pixels"
    boxes: Boxes

    @property
    def widths(self) -> list[int]:
        """The padded widths of the lines; those of tilted lines are estimates."""
        sizes: list[tuple[float, float]] = []
        for left, right, top, bottom in self.boxes.upright:
            sizes.append((right - left, bottom - top))
        for first, second, third, _ in self.boxes.tilted:
            sizes.append((math.dist(first, second), math.dist(second, third)))
        # A line that is higher than wide is turned.
        return [HEIGHT * math.ceil(max(size) / max(1, min(size))) for size in sizes]


def lines_of(pixels: "Pixels", output: Maps | TextBoxes) -> list[TextLine] | UncutLines:
    """Return the lines in a canvas (height, width, 3), in which the detector found text."""
    boxes = boxes_on_canvas(output, pixels)
    return UncutLines(pixels, boxes) if isinstance(output, TextBoxes) else cut_lines(pixels, boxes)


def cut_lines(pixels: "Pixels", boxes: Boxes) -> list[TextLine]:
    """Return the lines of text in the boxes, cut out of a canvas.

    They are cut out of the canvas even if it is smaller than the picture.
    """
    import cv2
    from easyocr.utils import get_image_list

    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    # Each box alone, as an upright or as a tilted one:
    # EasyOCR pads lines that are cut together to one width.
    selections: list[tuple[list[list[int]], list[list[Point]]]] = []
    for left, right, top, bottom in boxes.upright:
        is_inside = min(right, width) > max(left, 0) and min(bottom, height) > max(top, 0)
        if is_inside:
            selections.append(([[left, right, top, bottom]], []))
    selections += [([], [quad]) for quad in boxes.tilted if _has_sides(quad)]
    lines: list[TextLine] = []
    for upright, tilted in selections:
        images, padded_width = get_image_list(upright, tilted, grey, model_height=HEIGHT)
        lines += [TextLine(image, int(padded_width)) for _, image in images]
    return lines


def _has_sides(quad: list[Point]) -> bool:
    """Return whether each side of a box is at least two pixels long: others cannot be cut out."""
    next_corners = [*quad[1:], quad[0]]
    for (x, y), (next_x, next_y) in zip(quad, next_corners, strict=True):
        if abs(x - next_x) + abs(y - next_y) < 2:
            return False
    return True
