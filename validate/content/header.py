"""What the first bytes of an image file tell."""

from typing import NamedTuple

MAX_HEADER = 1 << 20  # no reader of ours looks further for a header; CMYK photographs carry profiles of 550 KB


class ImageHeader(NamedTuple):
    """Size, mode and traits of an image as Pillow would report them after ``Image.open``."""

    format: str  # "jpeg", "png", "gif", "webp", "bmp", "tiff", ...
    width: int  # pixels; 0 if unknown
    height: int
    mode: str  # Pillow's name; "" if unknown, or, for the five formats read in full, if Pillow refuses it
    bits: int = 8  # a channel, as stored
    orientation: int = 1  # EXIF's, 1 to 8; any other number as it stands in the file
    animated: bool = False
    progressive: bool = False
    alpha: bool = False
    icc: bool = False
    needs: int = 0  # > 0: call again with the first ``needs`` bytes, if the file has that many
    length: int = 0  # bytes that the file should have at the least; 0 if it does not say
