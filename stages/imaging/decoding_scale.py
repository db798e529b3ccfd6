"""The scale at which an image is decoded."""

from typing import Literal

Mode = Literal["fast", "exact", "reference"]
# Height and width, or one number for both; None: the full size.
Target = int | tuple[int, int] | None

# libjpeg's smallest scale is 1/8.
_DCT_SCALE = 8


def scale_of(
    width: int, height: int, target: Target, k: float = 2.0, most: int = _DCT_SCALE
) -> int:
    """Return the power of two by which an image can be reduced before resizing.

    The reduced image is still ``k`` times the target on both sides.

    ``target`` is (height, width) in pixels, or one number for both.

    >>> scale_of(4000, 3000, 224), scale_of(640, 480, 224), scale_of(4000, 3000, None)
    (4, 1, 1)
    """
    if target is None:
        return 1
    down, across = (target, target) if isinstance(target, int) else target
    scale = 1
    while 2 * scale <= most and width >= 2 * scale * k * across and height >= 2 * scale * k * down:
        scale *= 2
    return scale
