"""The box of a decoded image: the part of its pixels that is the picture.

Imports numpy: import this module where it is needed.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# Left, top, right, bottom in pixels of the array.
Box = tuple[float, float, float, float]

Pixels = NDArray[np.uint8]

# Of ``Image.info``.
_KEY = "wdsflow.box"


class Scaled(np.ndarray):
    """Pixels of a picture that was decoded at a reduced scale.

    ``box`` is the part of the pixels that is the picture.

    A picture 4001 pixels wide at a quarter of its size fills 1000.25 of 1001 columns. Views and
    copies have no box.
    """

    box: Box | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the box, too."""
        rebuild, arguments, state = tuple(super().__reduce__())[:3]
        return rebuild, arguments, (self.box, state)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the state of ``__reduce__``."""
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


def box_of(image: "Pixels | Image") -> Box:
    """Return the part of an array (height, width, channels) or PIL image that is the picture."""
    if isinstance(image, np.ndarray):
        box = getattr(image, "box", None)
        if box is not None:
            return box
        return (0, 0, image.shape[1], image.shape[0])
    size, box = image.info.get(_KEY, (None, None))
    # Pillow copies info to the results of crop() and the like, which have another size.
    if size == image.size:
        return box
    return (0, 0, *image.size)


def set_box(image: "Image", box: Box) -> None:
    """Write the box into a PIL image, unless that is the whole image."""
    if box != (0, 0, *image.size):
        image.info[_KEY] = (image.size, box)
