"""Resizing a part of a picture whose edges may lie between pixels. Imports numpy: import this module where it is needed."""

import numpy as np

from .pixel_arrays import Box
from .resample import Kernel, Pixels, goes_down_first, has_torch, resize_with_pillow, run_kernel
from .spans import span


def resize_part(pixels: Pixels, part: Box, size: tuple[int, int], kernel: Kernel = "bicubic") -> Pixels:
    """Resize the part of an array (height, width, 3) to (height, width); it need not be contiguous then.

    ``part`` is left, top, right and bottom, in pixels. A part of whole pixels is resized as if it had been cut out
    before; between pixels what lies around it shines in at the edges, and it may be shifted as ``span`` says.
    """
    left, top, right, bottom = part
    if not has_torch():
        return _resize_with_pillow(pixels, part, size, kernel)
    down = span(top, bottom, pixels.shape[0], size[0])
    across = span(left, right, pixels.shape[1], size[1])
    flips = tuple(axis for axis, side in enumerate((down, across)) if side.flip)
    if flips:
        pixels = np.flip(pixels, flips)
    pixels = pixels[down.begin : down.end, across.begin : across.end]
    more = size[0] + down.extra, size[1] + across.extra
    down_first = goes_down_first(pixels, size)
    resized = run_kernel(pixels, more, (1 / down.step, 1 / across.step), kernel, down_first=down_first)
    resized = resized[down.extra :, across.extra :]
    return np.flip(resized, flips) if flips else resized


def _resize_with_pillow(pixels: Pixels, part: Box, size: tuple[int, int], kernel: Kernel) -> Pixels:
    from PIL import Image

    left, top, right, bottom = part
    if all(edge == int(edge) for edge in part):
        pixels = pixels[int(top) : int(bottom), int(left) : int(right)]
        part = 0, 0, pixels.shape[1], pixels.shape[0]
    else:
        part = left, top, min(right, pixels.shape[1]), min(bottom, pixels.shape[0])
    return np.array(resize_with_pillow(Image.fromarray(np.ascontiguousarray(pixels)), part, size, None, kernel))
