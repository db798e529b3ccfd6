"""How much of a picture boxes cover."""

from .boxes import Boxes, Point


def summed(boxes: Boxes) -> float:
    """Return the sum of the boxes' areas over that of the picture; above 1 where they overlap, or reach out of it.

    Source: Data-Juicer's video_ocr_area_ratio_filter, which takes a tilted box for two triangles.
    """
    area = sum(
        float((right - left) * (bottom - top))
        for left, right, top, bottom in boxes.upright
        if right >= left and bottom >= top
    )
    for first, second, third, fourth in boxes.tilted:
        area += _triangle(first, second, third) + _triangle(third, fourth, first)
    return area / (boxes.width * boxes.height)


def united(boxes: Boxes) -> float:
    """Return the share of the picture that lies under boxes, from 0 to 1: the area of their union, cut at its edges.

    Exact but for rounding, by Shapely; nothing is drawn in pixels.
    """
    from shapely import MultiPoint, box, union_all

    shapes = [
        box(left, top, right, bottom) for left, right, top, bottom in boxes.upright if right > left and bottom > top
    ]
    # Corners of a box with margins may come in an order that crosses itself.
    shapes += [MultiPoint(quad).convex_hull for quad in boxes.tilted]
    union = union_all(shapes).intersection(box(0, 0, boxes.width, boxes.height))
    return min(1.0, float(union.area) / (boxes.width * boxes.height))


def _triangle(first: Point, second: Point, third: Point) -> float:
    (x1, y1), (x2, y2), (x3, y3) = first, second, third
    return 0.5 * abs(x1 * y2 + x2 * y3 + x3 * y1 - x2 * y1 - x3 * y2 - x1 * y3)
