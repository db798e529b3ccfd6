"""OpenCLIP's transform for training: a random part of an image is resized."""

from dataclasses import dataclass

import numpy as np

from wdsflow.stages.decode import Admit, Decode
from wdsflow.stages.imaging.boxes import Pixels, box_of
from wdsflow.stages.imaging.decoding_scale import scale_of
from wdsflow.stages.imaging.resample import resize_part
from wdsflow.stages.imaging.spans import span

from .random_part import Part, random_part
from .torchvision_resize import resize_as_torchvision
from .transforms import RandomCrop, Size

# Output pixels that a part may be shifted because the image is decoded smaller.
_MOST_SHIFT = 0.03


@dataclass
class _DrawnPart:
    """The part of an image: drawn when the decoder has read its header."""

    transform: RandomCrop
    decode: Decode
    seed: int
    part: Part = (0, 0, 0, 0)
    image_width: int = 0

    def aim(self, width: int, height: int) -> Size:
        """Draw the part, and return the target of ``Decode.decode``."""
        transform = self.transform
        self.image_width = width
        self.part = random_part(width, height, transform.scale, transform.ratio, self.seed)
        return _image_target(self.part, (height, width), transform.size, self.decode)


def crop_part(
    transform: RandomCrop, decode: Decode, data: bytes, seed: int, admit: Admit | None
) -> Pixels:
    """Return a random part of an image as an array (3, height, width).

    Raises Dropped and StageError.
    """
    drawn = _DrawnPart(transform, decode, seed)
    if decode.mode == "reference":
        return _crop_with_pillow(drawn, data, admit)
    pixels = decode.decode(data, aim=drawn.aim, admit=admit)
    box_left, _, box_right, _ = box_of(pixels)
    # Below 1 if the image was decoded smaller.
    scale = (box_right - box_left) / drawn.image_width
    left, top, right, bottom = drawn.part
    scaled_part = left * scale, top * scale, right * scale, bottom * scale
    resized = resize_part(pixels, scaled_part, transform.size, transform.kernel)
    return resized.transpose(2, 0, 1)


def _crop_with_pillow(drawn: _DrawnPart, data: bytes, admit: Admit | None) -> Pixels:
    """Return the pixels that torchvision would return.

    The part is cut out of the full image first.
    """

    def admit_copy(peak: int) -> None:
        assert admit is not None
        # Pillow copies the part, with four bytes a pixel.
        left, top, right, bottom = drawn.part
        admit(peak + 4 * (right - left) * (bottom - top))

    hook = None if admit is None else admit_copy
    image = drawn.decode.decode(data, aim=drawn.aim, admit=hook)
    if drawn.part != (0, 0, *image.size):
        image = image.crop(drawn.part)
    size = drawn.transform.size
    resized = resize_as_torchvision(image, size, size, drawn.transform.kernel)
    return np.asarray(resized).transpose(2, 0, 1)


def _image_target(part: Part, image_size: Size, size: Size, decode: Decode) -> Size:
    """Return the size of the whole image at which the part is as large as ``size``.

    The size is larger if that would be too coarse.

    In images that are decoded smaller, parts may begin between two pixels: not every position is
    possible.
    """
    left, top, right, bottom = part
    height, width = image_size
    # Rounded up.
    target_height = -(-size[0] * height // (bottom - top))
    target_width = -(-size[1] * width // (right - left))
    if decode.mode != "fast":
        return target_height, target_width
    # The part must be near its position at the scale at which the image will be decoded.
    scale = scale_of(width, height, (target_height, target_width), decode.k)
    while scale > 1:
        scaled_height = -(-height // scale)
        scaled_width = -(-width // scale)
        down = span(top / scale, bottom / scale, scaled_height, size[0])
        across = span(left / scale, right / scale, scaled_width, size[1])
        if max(down.shift, across.shift) <= _MOST_SHIFT:
            break
        # Twice the target halves the reduction.
        scale //= 2
        target_height *= 2
        target_width *= 2
    return target_height, target_width
