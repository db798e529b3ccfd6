"""An image as the pixel scores see it."""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ..base import Dropped, StageError
from ..decode import Decode
from .errors import ScoreError

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 512  # pixels of the longer side of ``luma``, at most


class Picture:
    """An image, decoded once and no larger than is needed.

    ``image`` is RGB: of full size where the longer side has less than 1024 pixels, else at 1/2, 1/4, 1/8 ... of it, the
    least at which none of the sides of ``luma`` has to be enlarged (libjpeg's scales for JPEG, means of blocks for
    others). Transparency is dropped and EXIF's orientation ignored, as in training.
    """

    def __init__(self, image: "Image") -> None:
        self.image = image

    @cached_property
    def luma(self) -> "Image":
        """The image in grey, at most 512 x 512 pixels: larger ones are made smaller, with their aspect ratio kept.

        0.299 R + 0.587 G + 0.114 B, ITU-R BT.601, rounded to 0..255. Pillow's bilinear filter, antialiased; images
        of at most 512 x 512 keep their pixels.
        """
        from PIL.Image import Resampling

        from ..imaging.pixels import box_of

        # Pillow's kernel, also where torch could be had: values must not depend on what else is installed.
        grey, size = self.image.convert("L"), fitted(*self.image.size)
        return grey if size == grey.size else grey.resize(size, Resampling.BILINEAR, box=box_of(self.image))

    @cached_property
    def histogram(self) -> list[int]:
        """How many pixels of ``luma`` have each of the 256 levels."""
        return self.luma.histogram()


def decode_picture(data: bytes, budget: int) -> Picture:
    """Decode an image. Raises ScoreError, "over-budget" where that would take more than ``budget`` bytes."""
    try:
        return Picture(_decoder(budget).decode(data, aim=_aim))
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        raise ScoreError(error.reason, f"decoding it would take more than {budget:,} bytes") from None


@lru_cache(maxsize=8)
def _decoder(budget: int) -> Decode:
    return Decode(mode="fast", k=1.0, max_pixels=None, budget=budget)


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
