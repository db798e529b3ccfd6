"""OpenCLIP's transforms for validation: the whole image is resized, and its centre is cut out."""

from dataclasses import dataclass

import numpy as np

from wdsflow.stages.base import Dropped
from wdsflow.stages.decode import Admit, Decode
from wdsflow.stages.imaging.boxes import Pixels, box_of
from wdsflow.stages.imaging.resample import resize

from .torchvision_resize import resize_as_torchvision
from .transforms import ResizeAndCrop, Size


@dataclass
class _ResizedSize:
    """The size to which an image is resized: known when the decoder has read its header."""

    transform: ResizeAndCrop
    size: Size = (0, 0)

    def aim(self, width: int, height: int) -> Size:
        """Return the size as the target of ``Decode.decode``."""
        self.size = self.transform.resized(width, height)
        if not all(self.size):
            raise Dropped("too-long")
        return self.size


def resize_whole(
    transform: ResizeAndCrop, decode: Decode, data: bytes, admit: Admit | None
) -> Pixels:
    """Return an array (3, height, width) of an image. Raises Dropped and StageError."""
    resized = _ResizedSize(transform)
    decoded = decode.decode(data, aim=resized.aim, admit=admit)
    height, width = resized.size
    crop = min(height, transform.size[0]), min(width, transform.size[1])
    if isinstance(decoded, np.ndarray):
        pixels = resize(decoded, box_of(decoded), resized.size, crop, transform.kernel)
    else:
        # A PIL image: mode "reference".
        image = resize_as_torchvision(decoded, resized.size, crop, transform.kernel)
        pixels = np.asarray(image)
    if crop != transform.size:
        return _padded(pixels, transform.size, transform.fill)
    # A view would hold the whole picture.
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _padded(pixels: Pixels, size: Size, fill: int) -> Pixels:
    """Return (3, height, width) with the picture in the middle.

    It is where OpenCLIP's ``CenterCropOrPad`` puts it.
    """
    height, width = pixels.shape[:2]
    top = (size[0] - height) // 2
    left = (size[1] - width) // 2
    padded = np.full((3, *size), fill, np.uint8)
    padded[:, top : top + height, left : left + width] = pixels.transpose(2, 0, 1)
    return padded
