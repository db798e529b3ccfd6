"""Bicubic resizing with antialiasing, in torchvision's geometry. Imports numpy: import this module where it is needed."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .pixels import Box

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]

_LONG = 4  # a picture with more than so many crops side by side is not resized as a whole


def output_size(width: float, height: float, size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) after torchvision's ``Resize``: the short side becomes ``size``, the long one is cut to int.

    >>> output_size(640, 481, 224), output_size(300, 900, (10, 20))
    ((224, 298), (10, 20))
    """
    if not isinstance(size, int):
        return size
    short, long = min(width, height), max(width, height)
    longer = max(1, int(size * long / short))
    return (size, longer) if height <= width else (longer, size)


def centre(height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return (top, left) of torchvision's ``CenterCrop`` to (height, width)."""
    return round((height - size[0]) / 2.0), round((width - size[1]) / 2.0)


@cache
def has_torch() -> bool:
    """Tell whether torch can be imported; it is, the first time."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.ops.aten, "_upsample_bicubic2d_aa")


def resize(pixels: Pixels, box: Box, size: tuple[int, int], crop: tuple[int, int] | None) -> Pixels:
    """Resize the part of an array (height, width, 3) within ``box`` to (height, width); crop that to its centre.

    torch's kernel for uint8 is used where torch can be imported: at most 2 levels from Pillow's, four times as
    fast. Else Pillow's own.
    """
    if (crop is not None and size[0] * size[1] > _LONG * crop[0] * crop[1]) or not has_torch():
        from PIL import Image

        return np.array(resize_with_pillow(Image.fromarray(pixels), box, size, crop))
    return _resize_with_torch(pixels, box, size, crop)


def resize_with_pillow(image: "Image", box: Box, size: tuple[int, int], crop: tuple[int, int] | None) -> "Image":
    """Do the same for a PIL image, with Pillow's kernel; only what is left after the crop is computed."""
    from PIL import Image

    if crop is not None:
        top, left = centre(*size, crop)
        across, down = (box[2] - box[0]) / size[1], (box[3] - box[1]) / size[0]
        box = (
            box[0] + left * across,
            box[1] + top * down,
            min(box[0] + (left + crop[1]) * across, image.width),
            min(box[1] + (top + crop[0]) * down, image.height),
        )
        size = crop
    return image.resize((size[1], size[0]), Image.Resampling.BICUBIC, box=box)


def _resize_with_torch(pixels: Pixels, box: Box, size: tuple[int, int], crop: tuple[int, int] | None) -> Pixels:
    import torch

    height, width = pixels.shape[:2]
    # The kernel starts at the first pixel: a box that ends at the last one instead is turned round, and back.
    turns = tuple(axis for axis, start in ((0, box[1]), (1, box[0])) if start > 0)
    pixels = np.flip(pixels, turns) if turns else pixels
    if not pixels.flags.writeable or not pixels.flags.c_contiguous:
        pixels = np.array(pixels, order="C")  # torch warns of arrays that it must not write to
    # In this order of the axes the strides are those of channels-last, and the result comes in the same layout.
    tensor = torch.from_numpy(pixels.view(np.ndarray))[None].permute(0, 3, 1, 2)
    scales: Any = (None, None)
    if box != (0, 0, width, height):
        scales = (size[0] / (box[3] - box[1]), size[1] / (box[2] - box[0]))
    result = torch.ops.aten._upsample_bicubic2d_aa(tensor, list(size), False, *scales)  # noqa: FBT003, SLF001
    resized: Pixels = result[0].permute(1, 2, 0).numpy()
    resized = np.flip(resized, turns) if turns else resized
    if crop is not None:
        top, left = centre(*size, crop)
        resized = resized[top : top + crop[0], left : left + crop[1]]
    return np.ascontiguousarray(resized)
