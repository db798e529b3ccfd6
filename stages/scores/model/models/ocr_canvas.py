"""A picture as EasyOCR's detector takes it. Imports numpy: import this module where it is needed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .prepare import How, decode

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Canvas:
    """A picture, no side longer than the canvas; ``width`` and ``height`` are what it had before."""

    pixels: Pixels  # height, width, 3
    width: int
    height: int

    @property
    def nbytes(self) -> int:
        """Bytes that it takes: what waits for a model is bounded by them."""
        return self.pixels.nbytes


@dataclass(frozen=True)
class OnCanvas:
    """Makes a canvas of an image: of full size, or resized so that the longer side is ``side``.

    The same pixels as EasyOCR's ``resize_aspect_ratio``; with ``decode`` "fast" images of more than twice the size are
    decoded at a reduced scale: see ``Decode``.
    """

    side: int
    decode: How = "fast"

    def __call__(self, data: bytes, budget: int) -> Canvas:
        """Return the canvas of an encoded image. Raises ScoreError."""
        return on_canvas(decode(data, budget, self.decode, self._aim).view(np.ndarray), self.side)

    def _aim(self, width: int, height: int) -> tuple[int, int]:
        ratio = min(1, self.side / max(width, height))
        return max(1, round(height * ratio)), max(1, round(width * ratio))


def on_canvas(pixels: Pixels, side: int) -> Canvas:
    """Return the canvas of a picture (height, width, 3)."""
    import cv2

    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer > side:
        ratio = side / longer
        size = max(1, int(width * ratio)), max(1, int(height * ratio))
        resized: Any = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
        pixels = resized
    return Canvas(pixels, width, height)


def padded(length: int) -> int:
    """Return the length of a side as the detector takes it.

    >>> padded(360), padded(384)
    (384, 384)
    """
    return -(-length // 32) * 32
