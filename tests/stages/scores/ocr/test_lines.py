"""Lines of text are cut out of the canvas of a picture, as far as they are inside."""

import numpy as np
import pytest

from wdsflow.stages.scores.model.ocr.text_boxes import Boxes
from wdsflow.stages.scores.model.ocr.text_lines import cut_lines

HEIGHT, WIDTH = 64, 128
CANVAS = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)


@pytest.mark.parametrize(
    ("box", "lines"),
    [
        pytest.param((3, 30, 2, 20), 1, id="inside"),
        pytest.param((-5, 200, -5, 100), 1, id="beyond each side"),
        pytest.param((5, 5, 10, 20), 0, id="without width"),
        pytest.param((3, 30, 10, 10), 0, id="without height"),
        pytest.param((-20, 0, 2, 9), 0, id="left of it"),
        pytest.param((WIDTH, 140, 2, 9), 0, id="right of it"),
        pytest.param((3, 30, -9, 0), 0, id="above it"),
        pytest.param((3, 30, HEIGHT, 80), 0, id="below it"),
    ],
)
def test_a_box_gives_a_line_if_a_part_of_it_is_on_the_canvas(
    box: tuple[int, int, int, int], lines: int
) -> None:
    assert len(cut_lines(CANVAS, Boxes([box], [], WIDTH, HEIGHT))) == lines


def test_a_tilted_box_gives_a_line_if_its_sides_have_a_length() -> None:
    whole = [(10.0, 10.0), (50.0, 20.0), (48.0, 30.0), (8.0, 20.0)]
    flat = [(10.0, 10.0), (50.0, 20.0), (50.0, 21.0), (10.0, 11.0)]

    assert len(cut_lines(CANVAS, Boxes([], [whole, flat], WIDTH, HEIGHT))) == 1
