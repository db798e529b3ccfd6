"""What the first bytes of an image file tell."""

from typing import NamedTuple

MAX_HEADER = 1 << 20  # bytes: no header is looked for beyond; CMYK photographs carry profiles of 550 KB


class ImageHeader(NamedTuple):
    """Size, mode and traits of an image as Pillow would report them after ``Image.open``."""

    format: str  # "jpeg", "png", "gif", "webp", "bmp", "tiff", ...
    width: int  # pixels; 0 if unknown
    height: int
    mode: str  # Pillow's name; "" if unknown, or, where Pillow opens it by its header, if Pillow refuses it
    bits: int = 8  # a channel, as stored
    orientation: int = 1  # EXIF's, 1 to 8; any other number as it stands in the file
    animated: bool = False
    progressive: bool = False
    alpha: bool = False
    icc: bool = False
    needs: int = 0  # > 0: size and mode are unknown as yet; call again with so many of the first bytes, if that is more
    length: int = 0  # a file of fewer bytes is cut; 0 if the header does not say


def more_bytes(reached: int) -> int:
    """Return how many of the first bytes to ask for when a header goes on beyond ``reached``: few, growing steps.

    1, which nobody needs to ask for, where the header lies too far inside.

    >>> more_bytes(4096), more_bytes(70_000), more_bytes(2_000_000)
    (16384, 262144, 1)
    """
    needs = 1 << 14
    while needs < reached + 1024:
        needs <<= 2
    return needs if needs <= MAX_HEADER else 1
