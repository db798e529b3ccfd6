"""How an image is to be turned, by EXIF or XMP."""

import re
from struct import Struct, error

_ORDERS = {
    b"II": (Struct("<H").unpack_from, Struct("<I").unpack_from, b"\x12\x01"),
    b"MM": (Struct(">H").unpack_from, Struct(">I").unpack_from, b"\x01\x12"),
}
# Types of values.
_BYTE = 1
_SHORT = 3
_LONG = 4
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
        entry = block.find(tag, directory, end)
        while entry >= 0:
            # Entries have twelve bytes; the tag may also occur inside one.
            if (entry - directory) % 12 == 0:
                kind = short(block, entry + 2)[0]
                if kind == _SHORT:
                    return short(block, entry + 8)[0]  # type: ignore[no-any-return]
                if kind == _LONG:
                    return long(block, entry + 8)[0]  # type: ignore[no-any-return]
                return block[entry + 8] if kind == _BYTE else None
            entry = block.find(tag, entry + 1, end)
    except (error, IndexError):
        pass
    return None


def xmp_orientation(packet: bytes) -> int | None:
    """Return the orientation of an XMP packet; Pillow takes it where EXIF has none."""
    match = _XMP.search(packet)
    return int(match[1]) if match else None
