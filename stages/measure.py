"""How large the images and texts of a sample are, as a padded batch sees them."""

from typing import Any


def height_width(value: Any) -> tuple[int, int]:
    """Return an image's height and width: a Pillow image, or an array or tensor as HW, CHW or HWC.

    Raises TypeError if it is none of these.
    """
    size, shape = getattr(value, "size", None), getattr(value, "shape", None)
    if shape is None and isinstance(size, tuple) and len(size) == 2:
        return int(size[1]), int(size[0])
    if shape is not None and len(shape) == 2:
        return int(shape[0]), int(shape[1])
    if shape is not None and len(shape) == 3:
        if shape[0] not in {1, 3, 4} and shape[2] in {1, 3, 4}:
            return int(shape[0]), int(shape[1])
        return int(shape[1]), int(shape[2])
    raise TypeError(f"{type(value).__name__} has no height and width; put Decode before")


def length(value: Any) -> int:
    """Return the number of tokens of a text: the length of a list, or of a tensor's last dimension.

    Raises TypeError for text that is no tokens yet.
    """
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[-1])
    if isinstance(value, (list, tuple)):
        return len(value)
    raise TypeError(f"{type(value).__name__} is not a list of tokens; put Tokenize before")
