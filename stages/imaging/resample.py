"""Bicubic resizing with antialiasing, in torchvision's geometry.

Imports numpy: import this module where it is needed.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image


_MOST_EXTRA = 12
# Output pixels: an invisible shift.
_UNSEEN = 0.01
# The root mean square of an error that is uniform from -1 to 1.
_EVEN = 0.577

# Left, top, right, bottom in pixels of the array.
Box = tuple[float, float, float, float]

Pixels = NDArray[np.uint8]
Kernel = Literal["bicubic", "bilinear"]

_KEY = "wdsflow.box"

# Pixels that are converted at a time.
_STRIP = 1 << 15

# A picture with more than so many crops side by side is not resized as a whole.
_LONG = 4


class Span(NamedTuple):
    """Pixels ``begin`` to ``end`` of one axis, to be resized at ``step`` source pixels for an output pixel.

    A resize starts at a whole pixel. If the part does not, the span begins ``extra`` output pixels
    earlier, close to a whole pixel; these are cut off afterwards. With ``flip``, positions count
    from the other end of the axis. The remaining error is spread over both edges: ``shift`` is its
    root mean square, in output pixels.
    """

    begin: int
    end: int
    extra: int
    step: float
    flip: bool
    shift: float


def span(start: float, stop: float, length: int, count: int) -> Span:
    """Return how to make ``count`` pixels of the part from ``start`` to ``stop`` of an axis of ``length`` pixels.

    >>> span(12, 44, 100, 16)
    Span(begin=12, end=44, extra=0, step=2.0, flip=False, shift=0.0)
    >>> span(12.5, 46.25, 100, 16)[:3]
    (2, 46, 5)
    """
    step = (stop - start) / count
    if start == int(start):
        return Span(int(start), _end(int(start), stop, length), 0, step, flip=False, shift=0.0)
    half, least, chosen = count / 2, 1e9, (0, 0, False)
    # Unflipped first: flipping takes time.
    for flip, edge in ((False, start), (True, length - stop)):
        for extra in range(_MOST_EXTRA + 1):
            place = edge - extra * step
            begin = round(place)
            shift = abs(place - begin) / step * half / (half + extra) * _EVEN
            if shift < least and place >= 0:
                least, chosen = shift, (begin, extra, flip)
            if least < _UNSEEN:
                break
        if least < _UNSEEN:
            break
    begin, extra, flip = chosen
    first, last = (length - stop, length - start) if flip else (start, stop)
    even = (first + half * step - begin) / (extra + half)
    return Span(begin, _end(begin, last, length), extra, even, flip, least)


def _end(begin: int, stop: float, length: int) -> int:
    return min(max(round(stop), begin + 1), length)


class Scaled(np.ndarray):
    """Pixels of a picture that was decoded at a reduced scale; ``box`` is the part of them that is the picture.

    A picture 4001 pixels wide at a quarter of its size fills 1000.25 of 1001 columns. Views and
    copies have no box.
    """

    box: Box | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the box, too."""
        rebuild, arguments, state = tuple(super().__reduce__())[:3]
        return rebuild, arguments, (self.box, state)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the state of ``__reduce__``."""
        self.box, rest = state
        super().__setstate__(rest)


def with_box(array: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    """Return the array with a box, unless that is the whole array."""
    height, width = array.shape[:2]
    if box == (0, 0, width, height):
        return array
    scaled = array.view(Scaled)
    scaled.box = box
    return scaled


def box_of(image: "Pixels | Image") -> Box:
    """Return the part of an array (height, width, channels) or PIL image that is the picture."""
    if isinstance(image, np.ndarray):
        box = getattr(image, "box", None)
        return box if box is not None else (0, 0, image.shape[1], image.shape[0])
    size, box = image.info.get(_KEY, (None, None))
    # Crop() and the like carry info along.
    return box if size == image.size else (0, 0, *image.size)


def note_box(image: "Image", box: Box) -> None:
    """Write the box into a PIL image, unless that is the whole image."""
    if box != (0, 0, *image.size):
        image.info[_KEY] = (image.size, box)


def to_array(image: "Image") -> Pixels:
    """Return the pixels of a PIL image of one byte a channel: an array (height, width, channels), or without channels.

    Made in strips: ``np.array(image)`` takes twice the time, and three times the memory of the
    result.
    """
    width, height = image.size
    rows = max(1, _STRIP // width)
    if rows >= height:
        return np.array(image)
    first = np.asarray(image.crop((0, 0, width, rows)))
    pixels = np.empty((height, *first.shape[1:]), np.uint8)
    pixels[:rows] = first
    for top in range(rows, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return pixels


def output_size(width: float, height: float, size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) after torchvision's ``Resize``: the short side is ``size``, the long one truncated to int.

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
    """Return whether torch can be imported, with the kernel for uint8; the first call imports it."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.ops.aten, "_upsample_bicubic2d_aa")


def resize(
    pixels: Pixels,
    box: Box,
    size: tuple[int, int],
    crop: tuple[int, int] | None,
    kernel: Kernel = "bicubic",
) -> Pixels:
    """Resize the part of an array (height, width, 3) within ``box`` to (height, width); crop that to its centre.

    Uses torch's kernel for uint8 if torch can be imported: at most 2 levels from Pillow's, four
    times as fast. Otherwise Pillow's. The result need not be contiguous.
    """
    if (crop is not None and size[0] * size[1] > _LONG * crop[0] * crop[1]) or not has_torch():
        from PIL import Image

        return np.array(resize_with_pillow(Image.fromarray(pixels), box, size, crop, kernel))
    # The kernel starts at the first pixel: if the box ends at the last one instead, flip the axis,
    # and flip it back.
    flips = tuple(axis for axis, start in ((0, box[1]), (1, box[0])) if start > 0)
    scales = (size[0] / (box[3] - box[1]), size[1] / (box[2] - box[0]))
    top, left = (0, 0) if crop is None else centre(*size, crop)
    bottom, right = size if crop is None else (top + crop[0], left + crop[1])
    if flips:
        resized = np.flip(run_kernel(np.flip(pixels, flips), size, scales, kernel), flips)
    else:
        # Skip pixels to the right of the crop and below it.
        down_first = goes_down_first(pixels, size)
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
    """Resize and crop a PIL image as ``resize`` does, with Pillow's kernel; only the crop is computed.

    ``start``: the top and left of the crop, by default those of ``centre``. ``gap``: first average
    pixels as long as there are more than so many times as many as needed on a side.
    """
    from PIL import Image

    if crop is not None:
        top, left = centre(*size, crop) if start is None else start
        across, down = (box[2] - box[0]) / size[1], (box[3] - box[1]) / size[0]
        box = (
            box[0] + left * across,
            box[1] + top * down,
            min(box[0] + (left + crop[1]) * across, image.width),
            min(box[1] + (top + crop[0]) * down, image.height),
        )
        size = crop
    return image.resize(
        (size[1], size[0]), Image.Resampling[kernel.upper()], box=box, reducing_gap=gap
    )


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
    # The kernel skips a pass if the sizes are equal, whatever the scale: compute one more row or
    # column then.
    rows = size[0] + (size[0] == height and scales[0] != 1)
    columns = size[1] + (size[1] == width and scales[1] != 1)
    # Channels-last strides, of the first axis too: then the result has them, and is not rearranged.
    # Reordered by numpy: each call of torch releases the GIL, which other threads may be waiting
    # for.
    tensor = torch.from_numpy(
        pixels.view(np.ndarray).reshape(1, height, width, 3).transpose(0, 3, 1, 2)
    )
    aten = torch.ops.aten
    run = aten._upsample_bicubic2d_aa if kernel == "bicubic" else aten._upsample_bilinear2d_aa  # noqa: SLF001
    if down_first:
        tensor = run(tensor, [rows, width], False, scales[0], 1.0)  # noqa: FBT003
    tensor = run(tensor, [rows, columns], False, 1.0 if down_first else scales[0], scales[1])  # noqa: FBT003
    result: Pixels = tensor.numpy()[0].transpose(1, 2, 0)
    return result[: size[0], : size[1]]


def _copied(pixels: Pixels) -> Pixels:
    """Return a contiguous copy of an array (height, width, 3)."""
    if pixels.strides[1] >= 0:
        return np.array(pixels, order="C")
    # Flipped: numpy copies whole pixels two and a half times as fast as single values.
    whole = pixels[:, ::-1]
    if whole.strides[1:] != (3, 1):
        return np.array(pixels, order="C")
    return np.ascontiguousarray(whole.view("V3")[:, ::-1]).view(np.uint8).reshape(pixels.shape)


def goes_down_first(pixels: Pixels, size: tuple[int, int]) -> bool:
    """Return whether Pillow would resize down before across: from version 13 on, if that saves more."""
    rows, columns = pixels.shape[0] - size[0], pixels.shape[1] - size[1]
    if rows <= max(0, 2 * columns):
        return False
    import PIL

    return int(PIL.__version__.partition(".")[0]) >= 13


def resize_part(
    pixels: Pixels, part: Box, size: tuple[int, int], kernel: Kernel = "bicubic"
) -> Pixels:
    """Resize the part of an array (height, width, 3) to (height, width); it need not be contiguous then.

    ``part`` is left, top, right and bottom, in pixels. A part of whole pixels is resized as if it
    had been cropped before; otherwise pixels around it affect its edges, and it may be shifted by
    ``Span.shift``.
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
    resized = run_kernel(
        pixels, more, (1 / down.step, 1 / across.step), kernel, down_first=down_first
    )
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
    return np.array(
        resize_with_pillow(Image.fromarray(np.ascontiguousarray(pixels)), part, size, None, kernel)
    )
