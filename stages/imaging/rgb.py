"""Conversion of images to RGB."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

    from .boxes import Pixels

Colour = tuple[int, int, int]
Alpha = Literal["drop", "keep"] | Colour
HighDepth = Literal["scale", "clip"]

_WITH_ALPHA = frozenset(("RGBA", "LA", "PA", "La", "RGBa"))
# I;16 and its like too.
_DEEP_MODES = ("I", "F")
# Values that are scaled at a time.
_AT_ONCE = 1 << 15


def to_rgb(image: "Image", alpha: Alpha, high_depth: HighDepth) -> "Image":
    """Return an RGB image, the same object if it is already RGB.

    ``alpha`` "drop" keeps the colours of transparent pixels, as ``convert("RGB")`` does; a colour
    replaces them; "keep" returns RGBA if any pixel may be transparent. ``high_depth`` "clip" is
    ``convert("RGB")``; "scale" maps the range of values to 0..255: see ``scaled``; their
    transparency is ignored.
    """
    from PIL import Image as Images

    if high_depth == "scale" and image.mode[:1] in _DEEP_MODES:
        return Images.fromarray(scaled(image)).convert("RGB")
    if alpha != "drop" and (image.mode in _WITH_ALPHA or "transparency" in image.info):
        clear = image.convert("RGBA")
        if alpha == "keep":
            return clear
        result = Images.new("RGB", image.size, alpha)
        result.paste(clear, mask=clear)
        return result
    return plain_rgb(image)


def plain_rgb(image: "Image") -> "Image":
    """Convert as ``convert("RGB")`` does, without its warning and without copying an RGB image."""
    if image.mode == "RGB":
        return image
    # convert() would only look up the new transparent colour, and warn if there are many: no pixel
    # depends on it.
    image.info.pop("transparency", None)
    return image.convert("RGB")


def scaled(image: "Image") -> "Pixels":
    """Return an array (height, width) of uint8 from an image of one channel with more than 8 bits.

    Integers from 0 to 65535 are 16-bit levels, floats from 0 to 1 are shares of white, floats from
    0 to 255 are levels; any other range is stretched from its lowest to its highest value. Values
    that are not finite are black.
    """
    import numpy as np

    values = np.asarray(image)
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    low = high = 0.0
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
    is_integer = image.mode[:1] == "I"
    floor = 0.0
    if is_integer and low >= 0 and high <= 65535:
        span = 65535.0
    elif not is_integer and low >= 0 and high <= 255:
        span = 1.0 if high <= 1 else 255.0
    else:
        floor, span = low, high - low
    factor = 255 / span if span else 0.0
    result = np.zeros(values.shape, np.uint8)
    step = max(1, _AT_ONCE // max(values.shape[1], 1))
    for row in range(0, values.shape[0], step):
        # A signalling NaN is a NaN.
        with np.errstate(invalid="ignore"):
            part = values[row : row + step].astype(np.float64)
        part = np.where(np.isfinite(part), part, floor)
        result[row : row + step] = np.clip((part - floor) * factor + 0.5, 0, 255)
    return result
