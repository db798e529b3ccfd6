"""What the first bytes of an image say: size, mode and traits."""

from collections.abc import Callable
from typing import NamedTuple

# Bytes: no header is looked for beyond; CMYK photographs carry profiles of 550 KB.
MAX_HEADER = 1 << 20


class ImageHeader(NamedTuple):
    """Size, mode and traits of an image as Pillow would report them after ``Image.open``."""

    # "jpeg", "png", "gif", "webp", "bmp", "tiff", ...
    format: str
    # Pixels; 0 if unknown.
    width: int
    height: int
    # Pillow's name; "" if unknown, or, where Pillow opens it by its header, if Pillow refuses it.
    mode: str
    # A channel, as stored.
    bits: int = 8
    # EXIF's, 1 to 8; any other number unchanged.
    orientation: int = 1
    animated: bool = False
    progressive: bool = False
    alpha: bool = False
    icc: bool = False
    # > 0: size and mode are unknown as yet; call again with
    # so many of the first bytes, if that is more.
    needs: int = 0
    # A file of fewer bytes is cut; 0 if the header does not say.
    length: int = 0


def more_bytes(reached: int) -> int:
    """Return how many leading bytes to read for a header that continues beyond ``reached``.

    Sizes grow in few, large steps.

    1, which no caller needs to request, where the header is too far inside.

    >>> more_bytes(4096), more_bytes(70_000), more_bytes(2_000_000)
    (16384, 262144, 1)
    """
    needs = 1 << 14
    while needs < reached + 1024:
        needs <<= 2
    return needs if needs <= MAX_HEADER else 1


# Half the time of ImageHeader(...), which adds up over millions of images.
make_header: Callable[..., ImageHeader] = tuple.__new__
