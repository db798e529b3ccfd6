"""The share of a picture that boxes of text cover."""

from typing import Any

from .text_boxes import Boxes, Point


def summed_area_share(boxes: Boxes) -> float:
    """Return the sum of the boxes' areas over that of the picture.

    It may be above 1 if boxes overlap or extend beyond the picture.

    Source: Data-Juicer's video_ocr_area_ratio_filter, which takes a tilted box for two triangles.
    """
    area = 0.0
    for left, right, top, bottom in boxes.upright:
        if right >= left and bottom >= top:
            area += (right - left) * (bottom - top)
    for first, second, third, fourth in boxes.tilted:
        area += _triangle(first, second, third) + _triangle(third, fourth, first)
    return area / (boxes.width * boxes.height)


def covered_area_share(boxes: Boxes) -> float:
    """Return the share of the picture under boxes, from 0 to 1.

    It is the area of the boxes' union, cut at the picture's edges.

    Exact except for rounding, by Shapely; nothing is drawn in pixels.
    """
    from shapely import MultiPoint, box, union_all

    shapes: list[Any] = []
    for left, right, top, bottom in boxes.upright:
        if right > left and bottom > top:
            shapes.append(box(left, top, right, bottom))
    # The corners of a tilted box may be in an order whose edges cross.
    shapes += [MultiPoint(quad).convex_hull for quad in boxes.tilted]
    picture = box(0, 0, boxes.width, boxes.height)
    union = union_all(shapes).intersection(picture)
    return min(1.0, float(union.area) / (boxes.width * boxes.height))


def _triangle(first: Point, second: Point, third: Point) -> float:
    """Return the area of a triangle, given its corners."""
    (x1, y1), (x2, y2), (x3, y3) = first, second, third
    return 0.5 * abs(x1 * y2 + x2 * y3 + x3 * y1 - x2 * y1 - x3 * y2 - x1 * y3)
