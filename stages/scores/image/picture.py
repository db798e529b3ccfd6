"""An image as the input of pixel scores."""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from ...base import Dropped, StageError
from ...decode import Decode
from ..score_errors import ScoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SIDE = 512  # pixels of the longer side of ``luma``, at most
_JPEG = b"\xff\xd8\xff"  # libjpeg-turbo gives arrays, Pillow its own images


class Picture:
    """An image, decoded once and no larger than is needed.

    RGB, of full size if the longer side has less than 1024 pixels, otherwise at 1/2, 1/4, 1/8 ... of it, the least at
    which no side of ``luma`` has to be enlarged (libjpeg's scales for JPEG, means of blocks for others). Transparency
    is dropped and EXIF's orientation ignored, as in training. The effect on scores: ``scale_tolerance``.
    """

    def __init__(self, decoded: "Image | NDArray[np.uint8]") -> None:
        # As it came from its decoder: conversion takes as long as some scores.
        self._decoded = decoded

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        height, width = getattr(self._decoded, "shape", (0, 0))[:2]
        return (width, height) if width else self.image.size

    @property
    def image(self) -> "Image":
        """As a PIL image."""
        import numpy as np

        if isinstance(self._decoded, np.ndarray):
            from PIL import Image

            from ...imaging.pixel_arrays import box_of, note_box

            image = Image.fromarray(self._decoded)
            note_box(image, box_of(self._decoded))
            self._decoded = image
        return self._decoded

    @property
    def pixels(self) -> "NDArray[np.uint8]":
        """As an array (height, width, 3) that cannot be written to: it is the same for all scores."""
        import numpy as np

        pixels = np.asarray(self._decoded).view(np.ndarray)
        pixels.flags.writeable = False
        return pixels

    def rows(self, step: int) -> "NDArray[np.uint8]":
        """Return one of ``step`` rows of pixels, unchanged."""
        import numpy as np
        from PIL.Image import Resampling

        if isinstance(self._decoded, np.ndarray):
            return self._decoded[step // 2 :: step]
        width, height = self._decoded.size
        return np.asarray(self._decoded.resize((width, max(1, height // step)), Resampling.NEAREST))

    @cached_property
    def luma(self) -> "Image":
        """The image in grey, at most 512 x 512 pixels: larger ones are made smaller, with their aspect ratio kept.

        0.299 R + 0.587 G + 0.114 B, ITU-R BT.601, rounded to 0..255. Pillow's bilinear filter, antialiased; images
        of at most 512 x 512 keep their pixels.
        """
        from PIL.Image import Resampling

        from ...imaging.pixel_arrays import box_of

        # Pillow's kernel, even if torch is installed: values must not depend on other libraries.
        grey, size = self.image.convert("L"), fitted(*self.image.size)
        return grey if size == grey.size else grey.resize(size, Resampling.BILINEAR, box=box_of(self.image))

    @cached_property
    def histogram(self) -> list[int]:
        """How many pixels of ``luma`` have each of the 256 levels."""
        return self.luma.histogram()


def decode_picture(data: bytes, budget: int) -> Picture:
    """Decode an image. Raises ScoreError, "over-budget" if that would take more than ``budget`` bytes."""
    try:
        return Picture(_decoder(budget, "numpy" if data.startswith(_JPEG) else "pil").decode(data, aim=_aim))
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        raise ScoreError(error.reason, f"decoding it would take more than {budget:,} bytes") from None


@lru_cache(maxsize=8)
def _decoder(budget: int, output: Literal["pil", "numpy"]) -> Decode:
    return Decode(mode="fast", k=1.0, max_pixels=None, budget=budget, output=output)


def _aim(width: int, height: int) -> tuple[int, int]:
    width, height = fitted(width, height)
    return height, width


def fitted(width: int, height: int) -> tuple[int, int]:
    """Return the size of a picture made as small as needed: width and height, at least 1, at most 512.

    >>> fitted(4000, 3000), fitted(300, 200), fitted(90_000, 3)
    ((512, 384), (300, 200), (512, 1))
    """
    longer = max(width, height)
    if longer <= SIDE:
        return width, height
    # Integers: the same on every machine.
    return max(1, (width * SIDE + longer // 2) // longer), max(1, (height * SIDE + longer // 2) // longer)
