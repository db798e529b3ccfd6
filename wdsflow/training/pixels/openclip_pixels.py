"""OpenCLIP's transforms on single images, up to the last pixel. Imports torch: import this module where it is needed.

Everything runs in several threads at once. It must not call torch on more than 32,768 values,
except for the resize, which stays in its thread: torch would start a pool of OpenMP threads for
each of our threads.
"""

import math
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
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

from .transforms import RandomCrop, ResizeAndCrop, Size

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Pixels = NDArray[np.uint8]
# Left, top, right, bottom.
Part = tuple[int, int, int, int]

# Of a picture resized as a whole: 10,000 x 1 would become 2 million x 224.
_MOST_PIXELS = 1 << 26
# Output pixels that a crop may be shifted by decoding it smaller.
_MOST_SHIFT = 0.03
_TRIES = 10
_BITS = np.uint64(0xFFFFFF)
_local = threading.local()


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
    part, full = (0, 0, 0, 0), 0

    def aim(width: int, height: int) -> Size:
        nonlocal part, full
        full = width
        part = random_part(width, height, transform.scale, transform.ratio, seed)
        return _image_target(part, (height, width), transform.size, decode)

    def admit_copy(peak: int) -> None:
        assert admit is not None
        admit(peak + 4 * (part[2] - part[0]) * (part[3] - part[1]))

    if decode.mode == "reference":
        image = decode.decode(data, aim=aim, admit=admit and admit_copy)
        cut = image if part == (0, 0, *image.size) else image.crop(part)
        resized = _resize_as_torchvision(cut, transform.size, transform.size, transform.kernel)
        return np.asarray(resized).transpose(2, 0, 1)
    pixels = decode.decode(data, aim=aim, admit=admit)
    box = box_of(pixels)
    share = (box[2] - box[0]) / full
    left, top, right, bottom = part
    box_of_part = left * share, top * share, right * share, bottom * share
    return resize_part(pixels, box_of_part, transform.size, transform.kernel).transpose(2, 0, 1)


def _image_target(part: Part, image_size: Size, size: Size, decode: Decode) -> Size:
    """Return the size of the whole image that makes the part as large as ``size``, or larger if that is too coarse.

    In images that are decoded smaller, parts may begin between two pixels: not every position is
    possible.
    """
    left, top, right, bottom = part
    height, width = image_size
    target = -(-size[0] * height // (bottom - top)), -(-size[1] * width // (right - left))
    if decode.mode == "fast":
        scale = scale_of(width, height, target, decode.k)
        while scale > 1:
            down = span(top / scale, bottom / scale, -(-height // scale), size[0])
            across = span(left / scale, right / scale, -(-width // scale), size[1])
            if max(down.shift, across.shift) <= _MOST_SHIFT:
                break
            scale, target = scale // 2, (2 * target[0], 2 * target[1])
    return target


def _resize_as_torchvision(image: "Picture", size: Size, crop: Size, kernel: Kernel) -> "Picture":
    """Return a Pillow image resized and centre-cropped as by torchvision; very long images take a shorter way."""
    if size[0] * size[1] > _MOST_PIXELS:
        return resize_with_pillow(image, (0, 0, *image.size), size, crop, kernel)
    if (size[1], size[0]) != image.size:
        image = image.resize((size[1], size[0]), Image.Resampling[kernel.upper()])
    if size == crop:
        return image
    top, left = centre(*size, crop)
    return image.crop((left, top, left + crop[1], top + crop[0]))


def _padded(pixels: Pixels, size: Size, fill: int) -> Pixels:
    """Return (3, height, width) with the picture in the middle, where OpenCLIP's ``CenterCropOrPad`` puts it."""
    height, width = pixels.shape[:2]
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    padded = np.full((3, *size), fill, np.uint8)
    padded[:, top : top + height, left : left + width] = pixels.transpose(2, 0, 1)
    return padded


def random_part(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], seed: int
) -> Part:
    """Return the part that ``RandomResizedCrop.get_params`` draws after ``torch.manual_seed(seed)``.

    The numbers equal torch's, draw by draw and bit by bit; torch's global generator is not changed.
    They come from numpy's generator, the same Mersenne twister: each of torch's thirty small calls
    would release Python's lock, and threads would spend more time waiting for it than working.
    """
    draws = _draws(seed)
    area = height * width
    low, high = _logarithms(ratio)
    areas = _uniform(draws[0:-2:2], *scale).tolist()
    shapes = np.exp(_uniform(draws[1:-2:2], low, high)).tolist()
    numbers = draws.tolist()
    for attempt in range(_TRIES):
        target, shape = area * areas[attempt], shapes[attempt]
        across = round(math.sqrt(target * shape))
        down = round(math.sqrt(target / shape))
        if 0 < across <= width and 0 < down <= height:
            top = numbers[2 * attempt + 2] % (height - down + 1)
            left = numbers[2 * attempt + 3] % (width - across + 1)
            return left, top, left + across, top + down
    # All ten draws were too large: the centre, in the nearest allowed shape.
    across, down = width, height
    if width / height < min(ratio):
        down = round(width / min(ratio))
    elif width / height > max(ratio):
        across = round(height * max(ratio))
    top, left = (height - down) // 2, (width - across) // 2
    return left, top, left + across, top + down


def _draws(seed: int) -> NDArray[np.uint64]:
    """Return the first 32-bit numbers of torch's generator after seeding."""
    pair = getattr(_local, "pair", None)
    if pair is None:
        bits = np.random.MT19937()
        pair = _local.pair = bits, np.random.RandomState(bits)
    bits, state = pair
    # torch also uses 32 bits only.
    state.seed(seed & 0xFFFFFFFF)
    draws: NDArray[np.uint64] = bits.random_raw(2 * _TRIES + 2)
    return draws


def _uniform(draws: NDArray[np.uint64], low: float, high: float) -> NDArray[np.float32]:
    """Return the result of torch's ``uniform_`` for draws: 24 bits of each, in a fused multiply-add."""
    start, step = _steps(low, high)
    return ((draws & _BITS) * step + start).astype(np.float32)


@lru_cache
def _steps(low: float, high: float) -> tuple[float, float]:
    start, stop = np.float32(low), np.float32(high)
    return float(start), float(stop - start) * 2.0**-24


@lru_cache
def _logarithms(ratio: tuple[float, float]) -> tuple[float, float]:
    low, high = torch.log(torch.tensor(ratio)).tolist()
    return low, high


def normalise(
    items: Sequence[Pixels],
    mean: Sequence[float],
    std: Sequence[float],
    out: NDArray[np.float32],
    *,
    exact: bool,
) -> None:
    """Write (level / 255 - mean) / std of arrays (3, height, width) into ``out`` (n, 3, height, width).

    ``exact``: in the three steps of torchvision's ``ToTensor`` and ``Normalize``, equal to theirs
    in every bit. Otherwise in two steps of float32, at most 1e-6 from theirs.
    """
    for item, planes in zip(items, out, strict=True):
        for levels, plane, middle, deviation in zip(item, planes, mean, std, strict=True):
            # Converted to floats first: numpy vectorises only operations without a conversion.
            plane[...] = levels
            if exact:
                np.divide(plane, np.float32(255), out=plane)
                np.subtract(plane, np.float32(middle), out=plane)
                np.divide(plane, np.float32(deviation), out=plane)
            else:
                np.multiply(plane, np.float32(1 / (255 * deviation)), out=plane)
                np.add(plane, np.float32(-middle / deviation), out=plane)
