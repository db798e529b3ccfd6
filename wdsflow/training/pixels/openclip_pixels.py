"""OpenCLIP's transforms on single images, up to the last pixel. Imports torch: import this module where it is needed.

Everything runs in several threads at once. It must not call torch on more than 32,768 values,
except for the resize, which stays in its thread: torch would start a pool of OpenMP threads for
each of our threads.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wdsflow.stages.base import Dropped
from wdsflow.stages.decode import Admit, Decode
from wdsflow.stages.imaging.boxes import box_of
from wdsflow.stages.imaging.decoding_scale import scale_of
from wdsflow.stages.imaging.geometry import centre
from wdsflow.stages.imaging.resample import resize, resize_part, resize_with_pillow
from wdsflow.stages.imaging.spans import span
from wdsflow.stages.imaging.torch_kernel import Kernel

from .random_part import Part, random_part
from .transforms import RandomCrop, ResizeAndCrop, Size

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Pixels = NDArray[np.uint8]
# Of a picture resized as a whole: 10,000 x 1 would become 2 million x 224.
_MOST_PIXELS = 1 << 26
# Output pixels that a crop may be shifted by decoding it smaller.
_MOST_SHIFT = 0.03


def run_resize_and_crop(
    transform: ResizeAndCrop, decode: Decode, data: bytes, admit: Admit | None
) -> Pixels:
    """Return an array (3, height, width) of an image that is resized as a whole. Raises Dropped and StageError."""
    size: Size = (0, 0)

    def aim(width: int, height: int) -> Size:
        nonlocal size
        size = transform.resized(width, height)
        if not all(size):
            raise Dropped("too-long")
        return size

    decoded = decode.decode(data, aim=aim, admit=admit)
    crop = min(size[0], transform.size[0]), min(size[1], transform.size[1])
    if isinstance(decoded, np.ndarray):
        pixels = resize(decoded, box_of(decoded), size, crop, transform.kernel)
    else:
        pixels = np.asarray(_resize_as_torchvision(decoded, size, crop, transform.kernel))
    if crop != transform.size:
        return _padded(pixels, transform.size, transform.fill)
    # A view would hold the whole picture.
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def run_crop(
    transform: RandomCrop, decode: Decode, data: bytes, seed: int, admit: Admit | None
) -> Pixels:
    """Return an array (3, height, width) of a random part of an image. Raises Dropped and StageError."""
    part = (0, 0, 0, 0)
    full_width = 0

    def aim(width: int, height: int) -> Size:
        nonlocal part, full_width
        full_width = width
        part = random_part(width, height, transform.scale, transform.ratio, seed)
        return _image_target(part, (height, width), transform.size, decode)

    def admit_copy(peak: int) -> None:
        assert admit is not None
        # Pillow copies the part, with four bytes a pixel.
        left, top, right, bottom = part
        admit(peak + 4 * (right - left) * (bottom - top))

    if decode.mode == "reference":
        image = decode.decode(data, aim=aim, admit=admit and admit_copy)
        is_whole = part == (0, 0, *image.size)
        cropped = image if is_whole else image.crop(part)
        resized = _resize_as_torchvision(cropped, transform.size, transform.size, transform.kernel)
        return np.asarray(resized).transpose(2, 0, 1)
    pixels = decode.decode(data, aim=aim, admit=admit)
    box_left, _, box_right, _ = box_of(pixels)
    # Below 1 if the image was decoded smaller.
    scale = (box_right - box_left) / full_width
    left, top, right, bottom = part
    scaled_part = left * scale, top * scale, right * scale, bottom * scale
    resized_part = resize_part(pixels, scaled_part, transform.size, transform.kernel)
    return resized_part.transpose(2, 0, 1)


def _image_target(part: Part, image_size: Size, size: Size, decode: Decode) -> Size:
    """Return the size of the whole image that makes the part as large as ``size``, or larger if that is too coarse.

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
        down = span(top / scale, bottom / scale, -(-height // scale), size[0])
        across = span(left / scale, right / scale, -(-width // scale), size[1])
        if max(down.shift, across.shift) <= _MOST_SHIFT:
            break
        scale //= 2
        target_height *= 2
        target_width *= 2
    return target_height, target_width


def _resize_as_torchvision(image: "Picture", size: Size, crop: Size, kernel: Kernel) -> "Picture":
    """Return a Pillow image resized and centre-cropped as by torchvision; very long images take a shorter way."""
    height, width = size
    if height * width > _MOST_PIXELS:
        return resize_with_pillow(image, (0, 0, *image.size), size, crop, kernel)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling[kernel.upper()])
    if size == crop:
        return image
    crop_height, crop_width = crop
    top, left = centre(height, width, crop)
    return image.crop((left, top, left + crop_width, top + crop_height))


def _padded(pixels: Pixels, size: Size, fill: int) -> Pixels:
    """Return (3, height, width) with the picture in the middle, where OpenCLIP's ``CenterCropOrPad`` puts it."""
    height, width = pixels.shape[:2]
    top = (size[0] - height) // 2
    left = (size[1] - width) // 2
    padded = np.full((3, *size), fill, np.uint8)
    padded[:, top : top + height, left : left + width] = pixels.transpose(2, 0, 1)
    return padded
