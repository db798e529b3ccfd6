"""From the detector's maps to boxes, with EasyOCR's own functions and its default thresholds."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TEXT, _LINK, _LOW = 0.7, 0.4, 0.4
_GROUPING = {"slope_ths": 0.1, "ycenter_ths": 0.5, "height_ths": 0.5, "width_ths": 0.5, "add_margin": 0.1}
_LEAST = 20  # pixels of a box's longer side

Point = tuple[float, float]


class Maps(NamedTuple):
    """What the detector says of a picture: likelihoods of text and of links, at half of the canvas's size."""

    scores: "NDArray[np.float32]"  # height, width, 2
    width: int  # of the picture
    height: int
    ratio: float  # of the canvas to the picture


class Boxes(NamedTuple):
    """Boxes round text, in pixels of the picture; they may reach out of it."""

    upright: list[tuple[int, int, int, int]]  # least and largest x, least and largest y
    tilted: list[list[Point]]  # four corners
    width: int  # of the picture
    height: int


def boxes_of(maps: Maps) -> Boxes:
    """Return the boxes that ``easyocr.Reader.detect`` returns for the picture."""
    import numpy as np
    from easyocr.craft_utils import adjustResultCoordinates, getDetBoxes
    from easyocr.utils import diff, group_text_box

    found, _, _ = getDetBoxes(maps.scores[..., 0], maps.scores[..., 1], _TEXT, _LINK, _LOW, False)  # noqa: FBT003
    found = adjustResultCoordinates(found, 1 / maps.ratio, 1 / maps.ratio)
    corners = [np.array(box).astype(np.int32).reshape(-1) for box in found]
    lines, quads = group_text_box(corners, **_GROUPING) if corners else ([], [])
    upright = [_whole(box) for box in lines if max(box[1] - box[0], box[3] - box[2]) > _LEAST]
    tilted = [_points(quad) for quad in quads if max(diff([x for x, _ in quad]), diff([y for _, y in quad])) > _LEAST]
    return Boxes(upright, tilted, maps.width, maps.height)


def _whole(box: Any) -> tuple[int, int, int, int]:
    left, right, top, bottom = box
    return int(left), int(right), int(top), int(bottom)


def _points(quad: Any) -> list[Point]:
    return [(float(x), float(y)) for x, y in quad]
