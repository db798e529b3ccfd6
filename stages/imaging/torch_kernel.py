"""torch's antialiased resizing of uint8 pixels: close to Pillow's, four times as fast.

Imports numpy: import this module where it is needed.
"""

from functools import cache
from typing import Literal

import numpy as np

from .boxes import Pixels

Kernel = Literal["bicubic", "bilinear"]


@cache
def has_torch() -> bool:
    """Return whether torch can be imported and has the kernel for uint8.

    The first call imports it.
    """
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.ops.aten, "_upsample_bicubic2d_aa")


def run_kernel(
    pixels: Pixels,
    size: tuple[int, int],
    scales: tuple[float, float],
    kernel: Kernel = "bicubic",
    *,
    down_first: bool = False,
) -> Pixels:
    """Resize an array (height, width, 3) to (height, width) with torch's kernel.

    It starts at the first pixel, at 1 / scale source pixels for each output pixel. It rounds to
    levels after each of its two passes: across, then down, unless ``down_first``.
    """
    import torch

    if not pixels.flags.writeable or not pixels.flags.c_contiguous:
        # torch warns about read-only arrays.
        pixels = _copied(pixels)
    height, width = pixels.shape[:2]
    # The kernel skips a pass if the sizes are equal, whatever
    # the scale: compute one more row or column then.
    rows, columns = size
    if rows == height and scales[0] != 1:
        rows += 1
    if columns == width and scales[1] != 1:
        columns += 1
    # Channels-last strides, of the first axis too: then the result has
    # them, and is not rearranged. Reordered by numpy: each call of
    # torch releases the GIL, which other threads may be waiting for.
    images = pixels.view(np.ndarray).reshape(1, height, width, 3)
    tensor = torch.from_numpy(images.transpose(0, 3, 1, 2))
    aten = torch.ops.aten
    run = aten._upsample_bicubic2d_aa if kernel == "bicubic" else aten._upsample_bilinear2d_aa  # noqa: SLF001
    down_scale, across_scale = scales
    if down_first:
        tensor = run(tensor, [rows, width], False, down_scale, 1.0)  # noqa: FBT003
        # What remains is the pass across.
        down_scale = 1.0
    tensor = run(tensor, [rows, columns], False, down_scale, across_scale)  # noqa: FBT003
    result: Pixels = tensor.numpy()[0].transpose(1, 2, 0)
    return result[: size[0], : size[1]]


def _copied(pixels: Pixels) -> Pixels:
    """Return a contiguous copy of an array (height, width, 3)."""
    if pixels.strides[1] >= 0:
        return np.array(pixels, order="C")
    # Flipped: numpy copies whole pixels two and a half times as fast as single values.
    unflipped = pixels[:, ::-1]
    if unflipped.strides[1:] != (3, 1):
        return np.array(pixels, order="C")
    # One item of three bytes a pixel.
    whole_pixels = unflipped.view("V3")[:, ::-1]
    return np.ascontiguousarray(whole_pixels).view(np.uint8).reshape(pixels.shape)
