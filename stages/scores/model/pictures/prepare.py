"""Prepares pictures for a model: mirrored, resized, cropped, padded.

numpy and Pillow are imported on first use.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ....imaging.upright import upright
from ...base import ScoreError
from ...picture_decoding import decode_image
from .geometry import Geometry, Size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from ....imaging.boxes import Box

    Pixels = NDArray[np.uint8]

Flip = Literal["", "horizontal", "vertical", "both"]
# Decoding of a large image, at a reduced scale or at its full size.
Scale = Literal["fast", "exact"]
# A picture that is longer than so many crops is not resized
# as a whole: a line of pixels would take a GB.
_MOST_CROPS = 64
# EXIF's orientations.
_MIRRORS: dict[Flip, int] = {"horizontal": 2, "both": 3, "vertical": 4}


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Makes an array (3, height, width) of uint8 from an image.

    The image is mirrored by ``flip``, then resized and cropped.

    With ``decode`` "fast" it is decoded at a reduced scale, at least twice as large as needed: see
    ``Decode``. Transparency is dropped and EXIF's orientation ignored, as in training; more than 8
    bits are scaled to 8.
    """

    geometry: Geometry
    flip: Flip = ""
    decode: Scale = "fast"

    def __call__(self, data: bytes, budget: int) -> "Pixels":
        """Return the array.

        Raises ScoreError "over-budget" if decoding would take more than ``budget`` bytes.
        """
        size = (0, 0)

        def aim(width: int, height: int) -> Size:
            nonlocal size
            size = self._resized(width, height)
            return size

        pixels = decode_image(data, budget, self.decode, aim)
        return self._prepared(pixels, size)

    def of(self, pixels: "Pixels") -> "Pixels":
        """Return the array for a decoded picture (height, width, 3). Raises ScoreError."""
        height, width = pixels.shape[:2]
        return self._prepared(pixels, self._resized(width, height))

    def _resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to.

        Raises ScoreError if a side would have no pixel.
        """
        size = self.geometry.resized(width, height)
        if not all(size):
            raise ScoreError(
                "too-long", f"an image of {width} x {height} would have a side of no pixel"
            )
        return size

    def _prepared(self, pixels: "Pixels", size: Size) -> "Pixels":
        """Return the array for a picture (height, width, 3) that is resized to ``size``."""
        import numpy as np
        from PIL import Image

        from ....imaging.boxes import box_of
        from ....imaging.resample import resize_with_pillow

        geometry = self.geometry
        pixels = mirrored(pixels, self.flip)
        box = box_of(pixels)
        crop = min(size[0], geometry.size[0]), min(size[1], geometry.size[1])
        # Pillow's kernel, even if torch is installed: decoders need not load torch.
        image = Image.fromarray(np.ascontiguousarray(pixels).view(np.ndarray))
        if geometry.rounds_down:
            cropped = self._cropped_like_hf(image, box, size, crop)
        else:
            cropped = resize_with_pillow(image, box, size, crop, geometry.kernel)
        channels = np.asarray(cropped).transpose(2, 0, 1)
        if crop == geometry.size:
            return np.ascontiguousarray(channels)
        return self._padded(channels)

    def _cropped_like_hf(self, image: "Image", box: "Box", size: Size, crop: Size) -> "Image":
        """Resize and crop as the processors of transformers do."""
        from ....imaging.resample import resize_with_pillow

        kernel = self.geometry.kernel
        top, left = (size[0] - crop[0]) // 2, (size[1] - crop[1]) // 2
        if size[0] * size[1] > _MOST_CROPS * crop[0] * crop[1]:
            return resize_with_pillow(image, box, size, crop, kernel, start=(top, left))
        # To resize only the crop would save time, and change pixels by a level.
        resized = resize_with_pillow(image, box, size, None, kernel)
        return resized.crop((left, top, left + crop[1], top + crop[0]))

    def _padded(self, channels: "Pixels") -> "Pixels":
        """Return an array (3, height, width) in the middle of one of the geometry's size."""
        import numpy as np

        height, width = channels.shape[1:]
        top = (self.geometry.size[0] - height) // 2
        left = (self.geometry.size[1] - width) // 2
        padded: Pixels = np.full((3, *self.geometry.size), self.geometry.fill, np.uint8)
        padded[:, top : top + height, left : left + width] = channels
        return padded


def mirrored(pixels: "Pixels", flip: Flip) -> "Pixels":
    """Return an array (height, width, 3) that is mirrored.

    Left and right are exchanged, or top and bottom, or both.
    """
    if not flip:
        return pixels
    from ....imaging.boxes import box_of, with_box

    return with_box(*upright(pixels, box_of(pixels), _MIRRORS[flip]))
