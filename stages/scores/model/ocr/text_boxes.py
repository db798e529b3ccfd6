"""Boxes around text in a picture, made from what the detector returns for its canvas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...picture_decoding import decode_image
from ..pictures.prepare import Scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..pictures.prepare import Pixels

# EasyOCR's defaults: the least likelihood of text, of a
# link between characters, and of the pixels around text.
_TEXT, _LINK, _LOW = 0.7, 0.4, 0.4
# EasyOCR's defaults for boxes that become one line.
_GROUPING = {
    "slope_ths": 0.1,
    "ycenter_ths": 0.5,
    "height_ths": 0.5,
    "width_ths": 0.5,
    "add_margin": 0.1,
}
# EasyOCR's default: the longer side of a box has more pixels.
_LEAST = 20

Point = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Canvas:
    """The input of EasyOCR's detector: a picture, resized to the canvas.

    Attributes:
        pixels: an array of shape (height, width, 3).
        width: of the picture, before it was resized.
        height: of the picture.
    """

    pixels: "Pixels"
    width: int
    height: int

    @property
    def nbytes(self) -> int:
        """Size in bytes, which bounds the items that wait for a model."""
        return self.pixels.nbytes


@dataclass(frozen=True)
class OnCanvas:
    """Makes a canvas from an image: of full size, or resized so that the longer side is ``side``.

    The same pixels as EasyOCR's ``resize_aspect_ratio``; with ``decode`` "fast" images of more than
    twice the size are decoded at a reduced scale: see ``Decode``.
    """

    side: int
    decode: Scale = "fast"

    def __call__(self, data: bytes, budget: int) -> Canvas:
        """Return the canvas of an encoded image. Raises ScoreError."""
        import numpy as np

        return self.of(decode_image(data, budget, self.decode, self._aim).view(np.ndarray))

    def of(self, pixels: "Pixels") -> Canvas:
        """Return the canvas of a picture (height, width, 3)."""
        import cv2

        height, width = pixels.shape[:2]
        ratio = self.side / max(height, width)
        if ratio < 1:
            size = max(1, int(width * ratio)), max(1, int(height * ratio))
            resized: Any = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
            pixels = resized
        return Canvas(pixels, width, height)

    def _aim(self, width: int, height: int) -> tuple[int, int]:
        ratio = min(1, self.side / max(width, height))
        return max(1, round(height * ratio)), max(1, round(width * ratio))


class Maps(NamedTuple):
    """Output of the detector for a picture, at half of the canvas's size.

    Attributes:
        scores: likelihoods of text and of links, an array of shape (height, width, 2).
        width: of the picture.
        height: of the picture.
        ratio: of the canvas to the picture.
    """

    scores: "NDArray[np.float32]"
    width: int
    height: int
    ratio: float


class Boxes(NamedTuple):
    """Boxes around text, in pixels of a picture, or of its canvas; they may extend beyond it.

    Attributes:
        upright: of each the least and the largest x, the least and the largest y.
        tilted: of each four corners.
        width: of the picture.
        height: of the picture.
    """

    upright: list[tuple[int, int, int, int]]
    tilted: list[list[Point]]
    width: int
    height: int


class TextBoxes(NamedTuple):
    """Output of the detector on a CPU: the boxes of ``Maps``.

    With it, decoders need not import EasyOCR.
    """

    on_picture: Boxes
    on_canvas: Boxes


def text_boxes(maps: Maps, canvas: Canvas) -> TextBoxes:
    """Return the boxes of the maps of a canvas."""
    on_picture = boxes_of(maps)
    height, width = canvas.pixels.shape[:2]
    if (width, height) == (canvas.width, canvas.height):
        return TextBoxes(on_picture, on_picture)
    return TextBoxes(on_picture, boxes_on_canvas(maps, canvas.pixels))


def boxes_on_canvas(output: Maps | TextBoxes, pixels: "Pixels") -> Boxes:
    """Return the boxes in pixels of the canvas, an array of shape (height, width, 3)."""
    if isinstance(output, TextBoxes):
        return output.on_canvas
    height, width = pixels.shape[:2]
    return boxes_of(output._replace(width=width, height=height, ratio=1.0))


def boxes_of(output: Maps | TextBoxes) -> Boxes:
    """Return the boxes that ``easyocr.Reader.detect`` returns for the picture."""
    if isinstance(output, TextBoxes):
        return output.on_picture
    import numpy as np
    from easyocr.craft_utils import adjustResultCoordinates, getDetBoxes
    from easyocr.utils import diff, group_text_box

    text, links = output.scores[..., 0], output.scores[..., 1]
    words, _, _ = getDetBoxes(text, links, _TEXT, _LINK, _LOW, False)  # noqa: FBT003
    words = adjustResultCoordinates(words, 1 / output.ratio, 1 / output.ratio)
    corners = [np.array(word).astype(np.int32).reshape(-1) for word in words]
    # EasyOCR cannot group no boxes.
    lines, quads = group_text_box(corners, **_GROUPING) if corners else ([], [])
    upright: list[tuple[int, int, int, int]] = []
    for left, right, top, bottom in lines:
        if max(right - left, bottom - top) > _LEAST:
            upright.append((int(left), int(right), int(top), int(bottom)))
    tilted: list[list[Point]] = []
    for quad in quads:
        xs: Sequence[Any] = [x for x, _ in quad]
        ys: Sequence[Any] = [y for _, y in quad]
        if max(diff(xs), diff(ys)) > _LEAST:
            tilted.append([(float(x), float(y)) for x, y in quad])
    return Boxes(upright, tilted, output.width, output.height)
