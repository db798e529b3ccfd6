"""Bicubic resizing with antialiasing, in torchvision's geometry.

Imports numpy: import this module where it is needed.
"""

from typing import TYPE_CHECKING

import numpy as np

from .boxes import Box, Pixels
from .geometry import centre
from .spans import span
from .torch_kernel import Kernel, has_torch, run_kernel

if TYPE_CHECKING:
    from PIL.Image import Image

# A picture with more than so many crops side by side is not resized as a whole.
_LONG = 4
# The first version of Pillow that may resize down before across.
_PILLOW_DOWN_FIRST = 13


def resize(
    pixels: Pixels,
    box: Box,
    size: tuple[int, int],
    crop: tuple[int, int] | None,
    kernel: Kernel = "bicubic",
) -> Pixels:
    """Resize the part of an array (height, width, 3) within ``box`` to (height, width).

    The result is then cropped to its centre, ``crop``.

    Uses torch's kernel for uint8 if torch can be imported: at most 2 levels from Pillow's, four
    times as fast. Otherwise Pillow's. The result need not be contiguous.
    """
    is_long = crop is not None and size[0] * size[1] > _LONG * crop[0] * crop[1]
    if is_long or not has_torch():
        from PIL import Image

        image = Image.fromarray(pixels)
        return np.array(resize_with_pillow(image, box, size, crop, kernel))
    top, left = 0, 0
    bottom, right = size
    if crop is not None:
        top, left = centre(*size, crop)
        bottom, right = top + crop[0], left + crop[1]
    box_left, box_top, box_right, box_bottom = box
    scales = (size[0] / (box_bottom - box_top), size[1] / (box_right - box_left))
    # The kernel starts at the first pixel: if the box ends at the last one instead, flip the axis,
    # and flip it back.
    flips = tuple(axis for axis, start in enumerate((box_top, box_left)) if start > 0)
    if flips:
        flipped = run_kernel(np.flip(pixels, flips), size, scales, kernel)
        resized = np.flip(flipped, flips)
    else:
        # Skip pixels to the right of the crop and below it.
        down_first = resizes_vertically_first(pixels, size)
        resized = run_kernel(pixels, (bottom, right), scales, kernel, down_first=down_first)
    return resized[top:bottom, left:right]


def resize_with_pillow(
    image: "Image",
    box: Box,
    size: tuple[int, int],
    crop: tuple[int, int] | None,
    kernel: Kernel = "bicubic",
    gap: float | None = None,
    start: tuple[int, int] | None = None,
) -> "Image":
    """Resize and crop a PIL image as ``resize`` does, with Pillow's kernel.

    Only the crop is computed.

    ``start``: the top and left of the crop, by default those of ``centre``. ``gap``: first average
    pixels as long as there are more than so many times as many as needed on a side.
    """
    from PIL import Image

    if crop is not None:
        top, left = centre(*size, crop) if start is None else start
        box_left, box_top, box_right, box_bottom = box
        # Pixels of the image for one of the result.
        across = (box_right - box_left) / size[1]
        down = (box_bottom - box_top) / size[0]
        box = (
            box_left + left * across,
            box_top + top * down,
            min(box_left + (left + crop[1]) * across, image.width),
            min(box_top + (top + crop[0]) * down, image.height),
        )
        size = crop
    height, width = size
    method = Image.Resampling[kernel.upper()]
    return image.resize((width, height), method, box=box, reducing_gap=gap)


def resizes_vertically_first(pixels: Pixels, size: tuple[int, int]) -> bool:
    """Return whether Pillow would resize vertically before horizontally.

    It does from version 13 on, if that saves more work.
    """
    rows, columns = pixels.shape[0] - size[0], pixels.shape[1] - size[1]
    if rows <= max(0, 2 * columns):
        return False
    import PIL

    return int(PIL.__version__.partition(".")[0]) >= _PILLOW_DOWN_FIRST


def resize_part(
    pixels: Pixels, part: Box, size: tuple[int, int], kernel: Kernel = "bicubic"
) -> Pixels:
    """Resize the part of an array (height, width, 3) to (height, width).

    The result need not be contiguous.

    ``part`` is left, top, right and bottom, in pixels. A part of whole pixels is resized as if it
    had been cropped before; otherwise pixels around it affect its edges, and it may be shifted by
    ``Span.shift``.
    """
    if not has_torch():
        return _resize_part_with_pillow(pixels, part, size, kernel)
    left, top, right, bottom = part
    down = span(top, bottom, pixels.shape[0], size[0])
    across = span(left, right, pixels.shape[1], size[1])
    flips = tuple(axis for axis, side in enumerate((down, across)) if side.flip)
    if flips:
        pixels = np.flip(pixels, flips)
    pixels = pixels[down.begin : down.end, across.begin : across.end]
    size_with_extra = size[0] + down.extra, size[1] + across.extra
    scales = 1 / down.step, 1 / across.step
    down_first = resizes_vertically_first(pixels, size)
    resized = run_kernel(pixels, size_with_extra, scales, kernel, down_first=down_first)
    resized = resized[down.extra :, across.extra :]
    return np.flip(resized, flips) if flips else resized


def _resize_part_with_pillow(
    pixels: Pixels, part: Box, size: tuple[int, int], kernel: Kernel
) -> Pixels:
    from PIL import Image

    left, top, right, bottom = part
    if all(edge == int(edge) for edge in part):
        pixels = pixels[int(top) : int(bottom), int(left) : int(right)]
        part = 0, 0, pixels.shape[1], pixels.shape[0]
    else:
        part = left, top, min(right, pixels.shape[1]), min(bottom, pixels.shape[0])
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.array(resize_with_pillow(image, part, size, None, kernel))
