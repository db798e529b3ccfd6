"""JPEG: headers, frames without pixels, simplejpeg, and files that no decoder should get."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct, error
from typing import Any

from .header import ImageHeader, make_header, more_bytes
from .orientation import exif_orientation, xmp_orientation

# FF, marker and length of a segment.
_segment = Struct(">BBH").unpack_from
# Bits of a sample, height, width and components of a frame.
_frame = Struct(">BHHB").unpack_from

# Markers of frames: all, those that libjpeg decodes, and the progressive ones.
_ALL_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xDE}
_FRAMES = frozenset((0xC0, 0xC1, 0xC2, 0xC9, 0xCA))
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_SCAN = 0xDA
# Of applications: EXIF or XMP, and colour profiles.
_APP1, _APP2 = 0xE1, 0xE2
_OTHER_APPLICATIONS = frozenset(range(0xE0, 0xF0)) - {_APP1, _APP2}
# Markers before the frame that carry a length. Others
# outside of _ALL_FRAMES have none, or end the header.
_PLAIN = frozenset((0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xDF, 0xFE)) | _OTHER_APPLICATIONS
_EXIF, _XMP, _ICC = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0", b"ICC_PROFILE\0"
# Past fill bytes, escaped FFs and bytes that are no marker.
_MARKER = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)
_MOST_SEGMENTS = 10_000
# Bytes of the smallest frame and scan.
_SHORTEST_REST = 20

# By the number of components.
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_REFUSED = ImageHeader("jpeg", 0, 0, "")

# Bytes: 64 coefficients of 2.
_BLOCK = 128
_MOST_SCANS = 100
# Pixels times scans: a small progressive file can keep a decoder busy for hours.
_MOST_SCANNED = 4_000_000_000


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield marker and place of each segment. Ends before anything unusual.

    What follows the first scan is no segment.
    """
    position = 2
    for _ in range(_MOST_SEGMENTS):
        try:
            prefix, marker, length = _segment(data, position)
        except error:
            return
        if prefix != 0xFF or length < 2:
            return
        yield marker, position
        position += 2 + length


def coefficient_bytes(data: bytes) -> int | None:
    """Return the size in bytes of the coefficients that libjpeg holds in memory at once.

    0 for a file with one scan, the coefficients of the whole frame for several scans.

    A sequential file has more scans where its first one lacks a component. None where the header is
    unusual. ITU T.81, annexes A.1.1 (sizes of components) and A.2.3 (minimum coded units).
    """
    size, progressive, components = 0, False, 0
    try:
        for marker, position in _segments(data):
            if marker in _FRAMES:
                progressive = marker in _PROGRESSIVE
                _bits, height, width, components = _frame(data, position + 4)
                size = _size(data, position + 10, width, height, components)
            elif marker == _SCAN:
                # The first byte of a scan: how many components it has.
                has_more_scans = progressive or data[position + 4] < components
                return size if has_more_scans else 0
    except (error, IndexError, ValueError, ZeroDivisionError):
        pass
    return None


def _size(data: bytes, position: int, width: int, height: int, components: int) -> int:
    """Return the size in bytes of all coefficients of a frame.

    ``position``: where the description of the components begins.
    """
    # Of each component, blocks side by side and one below the other in a minimum coded unit.
    factors = [divmod(data[position + 3 * number + 1], 16) for number in range(components)]
    across = max(horizontal for horizontal, _ in factors)
    down = max(vertical for _, vertical in factors)
    units_across = -(-width // (8 * across))
    units_down = -(-height // (8 * down))
    blocks_of_unit = sum(horizontal * vertical for horizontal, vertical in factors)
    return _BLOCK * units_across * units_down * blocks_of_unit


def first_scan(data: bytes) -> int | None:
    """Return the position of a JPEG's first scan, or None.

    None means that it has no scan, or something unusual before the scan.
    """
    return next((position for marker, position in _segments(data) if marker == _SCAN), None)


def read_jpeg(data: bytes) -> ImageHeader:
    """Return the header of JPEG bytes that start with FF D8 FF.

    The walk accepts and refuses the same as Pillow's: 8 bits a sample, 1, 3 or 4 components, fill
    bytes and junk between segments. ``mode`` is "" where Pillow refuses.
    """
    position = 2
    icc = False
    orientation = packet = None
    try:
        for _ in range(_MOST_SEGMENTS):
            prefix, marker, length = _segment(data, position)
            # Most segments.
            if prefix == 0xFF and marker in _PLAIN:
                position += 2 + length if length > 2 else 4
            elif prefix != 0xFF or marker == 0xFF or marker == 0:
                match = _MARKER.search(data, position)
                if match is None:
                    return _unfinished_header(len(data) + _SHORTEST_REST)
                position = match.start()
            elif marker in _ALL_FRAMES:
                # EXIF takes precedence over XMP.
                if orientation is None and packet:
                    orientation = xmp_orientation(packet)
                return _header(data, position, marker, orientation, icc)
            elif marker == _APP1:
                end = position + 2 + max(length, 2)
                if end > len(data):
                    return _unfinished_header(end)
                if orientation is None and data.startswith(_EXIF, position + 4):
                    orientation = exif_orientation(data[position + 10 : end])
                elif data.startswith(_XMP, position + 4):
                    packet = data[position + 4 + len(_XMP) : end]
                position = end
            elif marker == _APP2:
                icc = icc or data.startswith(_ICC, position + 4)
                position += 2 + max(length, 2)
            elif marker == _SCAN or marker < 0xC0:
                return _REFUSED
            else:
                # No length: restart, start and end of image, extensions.
                position += 2
    except error:
        return _unfinished_header(position + _SHORTEST_REST)
    return _REFUSED


def _header(
    data: bytes, position: int, marker: int, orientation: int | None, icc: bool
) -> ImageHeader:
    """Return the header of a JPEG whose frame is at the given position.

    Raises struct.error if the frame is cut off.
    """
    bits, height, width, components = _frame(data, position + 4)
    mode = ""
    if bits == 8 and width and height:
        mode = _MODES.get(components, "")
    if orientation is None:
        orientation = 1
    progressive = marker in _PROGRESSIVE
    # In the order of ``ImageHeader``: it is not animated, and has no alpha.
    # It needs no more bytes, and its length is unknown.
    facts = ("jpeg", width, height, mode, bits, orientation, False, progressive, False, icc, 0, 0)
    return make_header(ImageHeader, facts)


def _unfinished_header(reached: int) -> ImageHeader:
    """Return the header of bytes that end before a position that must be read."""
    return _REFUSED._replace(needs=more_bytes(reached), length=reached)


@cache
def load_simplejpeg() -> Callable[..., Any] | None:
    """Return simplejpeg's decoder, None if it is not installed."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        return None
    return decode_jpeg  # type: ignore[no-any-return]


def decodes_too_long(data: bytes, pixels: int) -> bool:
    """Return whether a progressive JPEG has so many scans that it decodes for minutes or hours."""
    scans = data.count(b"\xff\xda")
    return scans > _MOST_SCANS and scans * pixels > _MOST_SCANNED
