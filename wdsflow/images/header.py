"""The header of an image, and its EXIF and XMP orientation."""

import re
from struct import Struct, error
from typing import NamedTuple

MAX_HEADER = 1 << 20  # bytes: no header is looked for beyond; CMYK photographs carry profiles of 550 KB


class ImageHeader(NamedTuple):
    """Size, mode and traits of an image as Pillow would report them after ``Image.open``."""

    format: str  # "jpeg", "png", "gif", "webp", "bmp", "tiff", ...
    width: int  # pixels; 0 if unknown
    height: int
    mode: str  # Pillow's name; "" if unknown, or, where Pillow opens it by its header, if Pillow refuses it
    bits: int = 8  # a channel, as stored
    orientation: int = 1  # EXIF's, 1 to 8; any other number unchanged
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


_ORDERS = {
    b"II": (Struct("<H").unpack_from, Struct("<I").unpack_from, b"\x12\x01"),
    b"MM": (Struct(">H").unpack_from, Struct(">I").unpack_from, b"\x01\x12"),
}
_SHORT, _LONG, _BYTE = 3, 4, 1
_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def exif_orientation(block: bytes) -> int | None:
    r"""Return the orientation of a TIFF block (the bytes after ``Exif\0\0``), None if it has none.

    Tag 274 of the first directory, TIFF 6.0. Any damage counts as none.

    >>> exif_orientation(b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0")
    6
    """
    order = _ORDERS.get(block[:2])
    if order is None:
        return None
    short, long, tag = order
    try:
        directory = long(block, 4)[0] + 2
        entries = short(block, directory - 2)[0]
        end = min(directory + 12 * entries, len(block))
        place = block.find(tag, directory, end)
        while place >= 0:
            if (place - directory) % 12 == 0:
                kind = short(block, place + 2)[0]
                if kind == _SHORT:
                    return short(block, place + 8)[0]  # type: ignore[no-any-return]
                if kind == _LONG:
                    return long(block, place + 8)[0]  # type: ignore[no-any-return]
                return block[place + 8] if kind == _BYTE else None
            place = block.find(tag, place + 1, end)
    except (error, IndexError):
        pass
    return None


def xmp_orientation(packet: bytes) -> int | None:
    """Return the orientation of an XMP packet; Pillow takes it where EXIF has none."""
    match = _XMP.search(packet)
    return int(match[1]) if match else None
