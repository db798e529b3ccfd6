"""From an encoded image to what a model takes. Imports numpy: import this module where it is needed."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ....base import Dropped, StageError
from ....decode import Aim, Decode
from ....imaging.resample import Box, box_of, resize_with_pillow, with_box
from ...score_errors import ScoreError
from .geometry import Geometry, Size

Pixels = NDArray[np.uint8]
Flip = Literal["", "horizontal", "vertical", "both"]
How = Literal["fast", "exact"]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Makes an array (3, height, width) of uint8 of an image: mirrored if asked, then resized and cut.

    With ``decode`` "fast" it is decoded at a smaller scale, but at least twice as large as it is needed: see ``Decode``.
    Transparency is dropped and EXIF's orientation ignored, as in training; more than 8 bits are scaled to 8.
    """

    geometry: Geometry
    flip: Flip = ""
    decode: How = "fast"

    def __call__(self, data: bytes, budget: int) -> Pixels:
        """Return the array. Raises ScoreError, "over-budget" if decoding would take more than ``budget`` bytes."""
        size = (0, 0)

        def aim(width: int, height: int) -> Size:
            nonlocal size
            size = self._resized(width, height)
            return size

        return self._prepared(decode(data, budget, self.decode, aim), size)

    def of(self, pixels: Pixels) -> Pixels:
        """Return the array for a picture that is decoded, (height, width, 3). Raises ScoreError."""
        return self._prepared(pixels, self._resized(pixels.shape[1], pixels.shape[0]))

    def _resized(self, width: int, height: int) -> Size:
        size = self.geometry.resized(width, height)
        if not all(size):
            raise ScoreError("too-long", f"an image of {width} x {height} would have a side of no pixel")
        return size

    def _prepared(self, decoded: Pixels, size: Size) -> Pixels:
        geometry, decoded = self.geometry, mirrored(decoded, self.flip)
        crop = min(size[0], geometry.size[0]), min(size[1], geometry.size[1])
        # Pillow's kernel, also where torch could be had: many decoders need not load it.
        whole = Image.fromarray(np.ascontiguousarray(decoded).view(np.ndarray))
        resized = resize_with_pillow(whole, box_of(decoded), size, crop, geometry.kernel)
        pixels = np.asarray(resized).transpose(2, 0, 1)
        if crop == geometry.size:
            return np.ascontiguousarray(pixels)
        top, left = (geometry.size[0] - crop[0]) // 2, (geometry.size[1] - crop[1]) // 2
        padded: Pixels = np.full((3, *geometry.size), geometry.fill, np.uint8)
        padded[:, top : top + crop[0], left : left + crop[1]] = pixels
        return padded


def decode(data: bytes, budget: int, mode: How, aim: Aim | None = None) -> Pixels:
    """Return an array (height, width, 3), and which part of it is the picture: see ``box_of``. Raises ScoreError."""
    try:
        pixels: Any = Decode(mode=mode, max_pixels=None, budget=budget, output="numpy").decode(data, aim=aim)
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        raise ScoreError(error.reason, f"decoding it would take more than {budget:,} bytes") from None
    found: Pixels = pixels
    return found


def full_size(data: bytes, budget: int) -> Pixels:
    """Return an array (height, width, 3) of an encoded image, which cannot be written to. Raises ScoreError."""
    pixels = decode(data, budget, "exact").view(np.ndarray)
    pixels.flags.writeable = False
    return pixels


def mirrored(pixels: Pixels, flip: Flip) -> Pixels:
    """Return an array (height, width, 3) with left and right exchanged, or top and bottom, or both."""
    height, width = pixels.shape[:2]
    left, top, right, bottom = box_of(pixels)
    if flip in {"horizontal", "both"}:
        pixels, left, right = pixels[:, ::-1], width - right, width - left
    if flip in {"vertical", "both"}:
        pixels, top, bottom = pixels[::-1], height - bottom, height - top
    box: Box = (left, top, right, bottom)
    return with_box(pixels.view(np.ndarray), box) if flip else pixels
