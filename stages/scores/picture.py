"""The picture of an image that all pixel scores share."""

from functools import cached_property
from typing import TYPE_CHECKING

from ..imaging.scored_size import SCORED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image


class Picture:
    """An image, decoded once and no larger than is needed.

    RGB, of full size if the longer side has less than 1024 pixels, otherwise at 1/2, 1/4, 1/8 ...
    of it, the least at which no side of ``luma`` has to be enlarged (libjpeg's scales for JPEG,
    means of blocks for others). Transparency is dropped and EXIF's orientation ignored, as in
    training. The effect on scores: ``scale_tolerance``.
    """

    def __init__(self, decoded: "Image | NDArray[np.uint8]") -> None:
        # Not converted before it is needed: conversion takes as long as some scores.
        self._decoded = decoded

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        height, width = getattr(self._decoded, "shape", (0, 0))[:2]
        if not width:
            return self.image.size
        return width, height

    @property
    def image(self) -> "Image":
        """As a PIL image."""
        import numpy as np

        if isinstance(self._decoded, np.ndarray):
            from PIL import Image

            from ..imaging.boxes import box_of, set_box

            image = Image.fromarray(self._decoded)
            set_box(image, box_of(self._decoded))
            self._decoded = image
        return self._decoded

    @property
    def pixels(self) -> "NDArray[np.uint8]":
        """As a read-only array (height, width, 3), which all scores share."""
        import numpy as np

        from ..imaging.pillow_pixels import to_array

        if isinstance(self._decoded, np.ndarray):
            pixels = self._decoded.view(np.ndarray)
        else:
            pixels = to_array(self._decoded)
        pixels.flags.writeable = False
        return pixels

    def rows(self, step: int) -> "NDArray[np.uint8]":
        """Return every ``step``-th row of pixels, unchanged."""
        import numpy as np
        from PIL.Image import Resampling

        if isinstance(self._decoded, np.ndarray):
            return self._decoded[step // 2 :: step]
        width, height = self._decoded.size
        rows = max(1, height // step)
        return np.asarray(self._decoded.resize((width, rows), Resampling.NEAREST))

    @cached_property
    def luma(self) -> "Image":
        """Return the image in grey, at most 512 x 512 pixels.

        Larger images are made smaller, with their aspect ratio kept.

        0.299 R + 0.587 G + 0.114 B, ITU-R BT.601, rounded to 0..255. Pillow's bilinear filter,
        antialiased; images of at most 512 x 512 keep their pixels.
        """
        from PIL.Image import Resampling

        from ..imaging.boxes import box_of

        grey = self.image.convert("L")
        size = SCORED.scaled(*self.image.size)
        if size == grey.size:
            return grey
        # Pillow's kernel, even if torch is installed: values must not depend on optional libraries.
        return grey.resize(size, Resampling.BILINEAR, box=box_of(self.image))

    @cached_property
    def histogram(self) -> list[int]:
        """How many pixels of ``luma`` have each of the 256 levels."""
        return self.luma.histogram()
