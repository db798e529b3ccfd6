"""Sizes and positions of resized and cropped images, as torchvision computes them."""


def output_size(width: float, height: float, size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) after torchvision's ``Resize``.

    If ``size`` is a number, the short side gets it, and the long side is truncated to int.

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
