"""From any of Pillow's modes to RGB: high depth, transparency."""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

Colour = tuple[int, int, int]
Alpha = Literal["drop"] | Colour
HighDepth = Literal["scale", "clip"]

_WITH_ALPHA = frozenset(("RGBA", "LA", "PA", "La", "RGBa"))
_DEEP = ("I", "F")  # I;16 and its like too
_ROWS = 1 << 20  # values that are scaled at a time


def to_rgb(image: "Image", alpha: Alpha, high_depth: HighDepth) -> "Image":
    """Return an RGB image, the same object where it is RGB already.

    ``alpha`` "drop" shows the colours that lie under transparent pixels, as ``convert("RGB")`` does; a colour
    is laid under them instead. ``high_depth`` "clip" is ``convert("RGB")``; "scale" maps the range of
    values to 0..255: see ``scaled``.
    """
    if alpha != "drop" and (image.mode in _WITH_ALPHA or "transparency" in image.info):
        return _on_colour(image, alpha)
    if high_depth == "scale" and image.mode[:1] in _DEEP:
        from PIL import Image as Images

        return Images.fromarray(scaled(image)).convert("RGB")
    return plain_rgb(image)


def plain_rgb(image: "Image") -> "Image":
    """Return what ``convert("RGB")`` returns, without its warning and without its copy of what is RGB already."""
    if image.mode == "RGB":
        return image
    # Changes no pixel: convert() only looks for the transparent colour's new name, and warns where it finds many.
    image.info.pop("transparency", None)
    return image.convert("RGB")


def scaled(image: "Image") -> Any:
    """Return an array (height, width) of uint8 from an image of one channel with more than 8 bits.

    Integers from 0 to 65535 are taken for 16 bits, floats from 0 to 1 for shares of white, floats from 0 to 255
    for levels; any other range is stretched from its lowest to its highest value. What is not finite is black.
    """
    import numpy as np

    values = np.asarray(image)
    low, high = _range(values)
    if image.mode[:1] == "I":
        floor, span = (0.0, 65535.0) if low >= 0 and high <= 65535 else (low, high - low)
    elif low >= 0 and high <= 255:
        floor, span = 0.0, 1.0 if high <= 1 else 255.0
    else:
        floor, span = low, high - low
    result = np.zeros(values.shape, np.uint8)
    step = max(1, _ROWS // max(values.shape[1], 1))
    for row in range(0, values.shape[0], step):
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            part = values[row : row + step].astype(np.float64)
        part = np.where(np.isfinite(part), part, floor)
        result[row : row + step] = np.clip((part - floor) * (255 / span if span else 0.0) + 0.5, 0, 255)
    return result


def _range(values: Any) -> tuple[float, float]:
    import numpy as np

    if values.dtype.kind == "f" and not np.isfinite(values).all():
        values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def _on_colour(image: "Image", colour: Colour) -> "Image":
    from PIL import Image as Images

    clear = image.convert("RGBA")
    result = Images.new("RGB", image.size, colour)
    result.paste(clear, mask=clear)
    return result
