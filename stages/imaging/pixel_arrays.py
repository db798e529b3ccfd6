"""Arrays that remember which part of them is the picture. Imports numpy: import this module where it is needed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels of the array

_KEY = "wdsflow.box"


class Scaled(np.ndarray):
    """Pixels of a picture that was decoded smaller; ``box`` is where the picture is in them.

    A picture 4001 pixels wide at a quarter of its size fills 1000.25 of 1001 columns. Views and copies have no box.
    """

    box: Box | None = None

    def __reduce__(self) -> Any:
        """Keep the box when pickled."""
        rebuild, arguments, state = tuple(super().__reduce__())[:3]
        return rebuild, arguments, (self.box, state)

    def __setstate__(self, state: Any) -> None:
        """Take over what ``__reduce__`` gave."""
        self.box, rest = state
        super().__setstate__(rest)


def with_box(array: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    """Return the array with a box, unless that is the whole array."""
    height, width = array.shape[:2]
    if box == (0, 0, width, height):
        return array
    scaled = array.view(Scaled)
    scaled.box = box
    return scaled


def box_of(image: Any) -> Box:
    """Return the part of an array (height, width, channels) or PIL image that is the picture."""
    if isinstance(image, np.ndarray):
        box = getattr(image, "box", None)
        return box if box is not None else (0, 0, image.shape[1], image.shape[0])
    size, box = image.info.get(_KEY, (None, None))
    return box if size == image.size else (0, 0, *image.size)  # crop() and the like carry info along


def note_box(image: Any, box: Box) -> None:
    """Write the box into a PIL image, unless that is the whole image."""
    if box != (0, 0, *image.size):
        image.info[_KEY] = (image.size, box)
