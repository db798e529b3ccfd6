import pytest

pytest.importorskip("shapely")

from wdsflow.stages.scores import View
from wdsflow.stages.scores.model.ocr.ocr_area import OcrArea
from wdsflow.stages.scores.model.ocr.text_areas import covered_area_share, summed_area_share
from wdsflow.stages.scores.model.ocr.text_boxes import Boxes, TextBoxes

DIAMOND = [(50.0, 0.0), (100.0, 50.0), (50.0, 100.0), (0.0, 50.0)]


def both(upright, tilted=()):
    boxes = Boxes(list(upright), list(tilted), 100, 100)
    return summed_area_share(boxes), covered_area_share(boxes)


def test_the_score_of_each_image_is_the_union_or_the_sum_of_its_boxes() -> None:
    images = View({"0.png": b"", "1.png": b""})
    overlapping = Boxes([(0, 10, 0, 10), (5, 15, 0, 10)], [], 100, 100)
    tilted = Boxes([], [DIAMOND], 100, 100)
    # On a smaller canvas; a score is about the picture.
    other = Boxes([(0, 9, 0, 9)], [], 50, 50)
    outputs = [TextBoxes(overlapping, other), TextBoxes(tilted, other)]

    values = {area: OcrArea(area=area).value(images, outputs) for area in ("union", "sum")}

    assert values == {"union": [0.015, 0.5], "sum": [0.02, 0.5]}


def test_boxes_apart_cover_the_same_either_way():
    assert both([(0, 10, 0, 10), (50, 60, 20, 40)]) == (0.03, 0.03)
    assert both([]) == (0, 0)


def test_what_overlaps_counts_once_in_the_union_and_twice_in_the_sum():
    assert both([(0, 10, 0, 10), (5, 15, 0, 10)]) == (0.02, 0.015)
    assert both([(0, 100, 0, 100)] * 3) == (3.0, 1.0)


def test_what_reaches_out_of_the_image_counts_in_the_sum_alone():
    assert both([(-10, 10, -10, 10)]) == (0.04, 0.01)
    assert both([(90, 130, 200, 300)]) == (0.4, 0.0)


def test_tilted_boxes_are_taken_by_their_corners():
    assert both([], [DIAMOND]) == (0.5, 0.5)
    assert both([(0, 100, 0, 50)], [DIAMOND]) == (1.0, 0.75)


def test_corners_in_a_crossing_order_make_no_hole_in_the_union():
    first, second, third, fourth = DIAMOND
    assert both([], [[first, third, second, fourth]])[1] == 0.5


def test_boxes_turned_inside_out_count_nothing():
    assert both([(10, 5, 0, 10), (5, 10, 10, 0)]) == (0.0, 0.0)
    assert both([(5, 5, 0, 10)], [[(1.0, 1.0)] * 4]) == (0.0, 0.0)
