"""Headers of images, EXIF and XMP orientation, and the headers of GIF, PNG and WebP."""

import re
from collections.abc import Callable, Iterator
from struct import Struct, error
from typing import NamedTuple
from zlib import crc32

# Bytes: no header is looked for beyond; CMYK photographs carry profiles of 550 KB.
MAX_HEADER = 1 << 20

_ORDERS = {
    b"II": (Struct("<H").unpack_from, Struct("<I").unpack_from, b"\x12\x01"),
    b"MM": (Struct(">H").unpack_from, Struct(">I").unpack_from, b"\x01\x12"),
}
_SHORT, _LONG, _BYTE = 3, 4, 1
_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')

_screen = Struct("<HHBBB").unpack_from
_frame = Struct("<HHHHB").unpack_from

_GREYS = bytes(value for level in range(256) for value in (level, level, level))
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _APPLICATION = 0xF9, 0xFF
_MOST_BLOCKS = 100_000
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")

_chunk = Struct(">I4s").unpack_from
_start = Struct(">I4sIIBBBBBI").unpack_from
_count = Struct(">I").unpack_from

# Pillow's mode by colour type and bits a channel; others are refused.
_PNG_MODES = {
    0: {1: "1", 2: "L", 4: "L", 8: "L", 16: "I;16"},
    2: {8: "RGB", 16: "RGB"},
    3: {1: "P", 2: "P", 4: "P", 8: "P"},
    4: {8: "LA", 16: "RGBA"},
    6: {8: "RGBA", 16: "RGBA"},
}
_WITH_ALPHA = (4, 6)
_HEADER, _DATA, _END_CHUNK, _FRAME_DATA = b"IHDR", b"IDAT", b"IEND", b"fdAT"
_TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT = b"tRNS", b"iCCP", b"eXIf", b"acTL", b"iTXt"
_OF_INTEREST = frozenset(
    (_DATA, _END_CHUNK, _FRAME_DATA, _TRANSPARENCY, _PROFILE, _EXIF, _ANIMATION, _TEXT)
)
_XMP_KEY = b"XML:com.adobe.xmp\0"
_MOST_PNG_CHUNKS = 1000

_riff = Struct("<4xI4x4s").unpack_from
_lossy = Struct("<3sHH").unpack_from
_lossless = Struct("<BI").unpack_from
_extended = Struct("<B3xHBHB").unpack_from
_ICC_FLAG, _ALPHA_FLAG, _EXIF_FLAG, _XMP_FLAG, _ANIMATION_FLAG = 0x20, 0x10, 0x08, 0x04, 0x02
# An animation has one a frame.
_MOST_WEBP_CHUNKS = 10_000
_START_CODE = b"\x9d\x01\x2a"


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
    # > 0: size and mode are unknown as yet; call again with so many of the first bytes, if that is
    # more.
    needs: int = 0
    # A file of fewer bytes is cut; 0 if the header does not say.
    length: int = 0


def more_bytes(reached: int) -> int:
    """Return how many of the first bytes to ask for when a header continues beyond ``reached``: few, growing steps.

    1, which no caller needs to request, where the header is too far inside.

    >>> more_bytes(4096), more_bytes(70_000), more_bytes(2_000_000)
    (16384, 262144, 1)
    """
    needs = 1 << 14
    while needs < reached + 1024:
        needs <<= 2
    return needs if needs <= MAX_HEADER else 1


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


def read_gif(data: bytes) -> ImageHeader:
    """Return the header of GIF bytes that start with ``GIF87a`` or ``GIF89a``.

    Size and mode are those of the first frame, as Pillow gives them: a frame that sticks out
    enlarges the screen, and a palette of plain greys makes mode "L". ``animated`` is true if a
    second frame begins within ``data``, or if the file loops.
    """
    try:
        width, height, flags, _background, _aspect = _screen(data, 6)
        position = 13
        coloured = False
        if flags & 0x80:
            coloured, position = _palette(data, position, flags)
        position, alpha, loops = _to_frame(data, position)
        if position < 0:
            return ImageHeader("gif", 0, 0, "")
        left, top, across, down, flags = _frame(data, position + 1)
        position += 10
        if flags & 0x80:
            coloured, position = _palette(data, position, flags)
    except (error, IndexError):
        return ImageHeader("gif", 0, 0, "", needs=more_bytes(len(data)), length=len(data) + 1)
    width, height = max(width, left + across), max(height, top + down)
    mode = ("P" if coloured else "L") if width and height else ""
    animated = loops or _has_second_frame(data, position + 1)
    return ImageHeader("gif", width, height, mode, 8, 1, animated, bool(flags & 0x40), alpha)


def _palette(data: bytes, position: int, flags: int) -> tuple[bool, int]:
    """Return whether the palette has colours, and where it ends."""
    size = 3 << ((flags & 7) + 1)
    end = position + size
    if end > len(data):
        raise IndexError
    return data[position:end] != _GREYS[:size], end


def _to_frame(data: bytes, position: int) -> tuple[int, bool, bool]:
    """Return where the next frame's descriptor starts (-1 at the end), whether it is transparent, and if it loops."""
    alpha = loops = False
    for _ in range(_MOST_BLOCKS):
        kind = data[position]
        if kind == _IMAGE:
            return position, alpha, loops
        if kind == _TRAILER:
            return -1, alpha, loops
        if kind == _EXTENSION:
            label = data[position + 1]
            if label == _CONTROL and data[position + 2] >= 4:
                alpha = bool(data[position + 3] & 1)
            elif label == _APPLICATION:
                loops = loops or data.startswith(_LOOPS, position + 3)
            position = _skip_blocks(data, position + 2)
        else:
            position += 1
    return -1, alpha, loops


def _skip_blocks(data: bytes, position: int) -> int:
    """Return the place after a chain of sub-blocks."""
    while size := data[position]:
        position += 1 + size
    return position + 1


def _has_second_frame(data: bytes, position: int) -> bool:
    try:
        return _to_frame(data, _skip_blocks(data, position))[0] >= 0
    except IndexError:
        return False


# Half the time of ImageHeader(...), which adds up over millions of images.
make_header: Callable[..., ImageHeader] = tuple.__new__


def read_png(data: bytes) -> ImageHeader:
    """Return the header of PNG bytes that start with its signature.

    ``alpha``, ``animated``, ``icc`` and ``orientation`` are of chunks within ``data``. ``mode`` is
    ""
    where Pillow refuses: a wrong checksum, an unknown colour type, no header before the image data.
    """
    position = 8
    try:
        length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(
            data, position
        )
        if name != _HEADER:
            position = _find_header(data)
            length, name, width, height, bits, colour, _method, kind, interlace, crc = _start(
                data, position
            )
    except error:
        needs = more_bytes(len(data)) if position > 8 else 33
        return ImageHeader("png", 0, 0, "", needs=needs, length=len(data) + 1)
    mode = _PNG_MODES.get(colour, {}).get(bits, "")
    if (
        length != 13
        or kind
        or not width
        or not height
        or crc32(data[position + 4 : position + 21]) != crc
    ):
        mode = ""
    position += 12 + length
    alpha, animated, icc, orientation = colour in _WITH_ALPHA, False, False, 1
    try:
        length, name = _chunk(data, position)
        if name != _DATA:
            transparent, animated, icc, orientation = _walk(data, position)
            alpha = alpha or transparent
    except error:
        pass
    facts = (
        "png",
        width,
        height,
        mode,
        bits,
        orientation,
        animated,
        interlace > 0,
        alpha,
        icc,
        0,
        0,
    )
    return make_header(ImageHeader, facts)


def _find_header(data: bytes) -> int:
    """Return where the header chunk starts in a file that has other chunks before it."""
    position = 8
    for _ in range(_MOST_PNG_CHUNKS):
        length, name = _chunk(data, position)
        if name == _HEADER:
            break
        position += 12 + length
    return position


def _walk(data: bytes, position: int) -> tuple[bool, bool, bool, int]:
    """Return transparency, animation, colour profile and orientation from the chunks before the image data."""
    alpha = animated = icc = False
    orientation, packet = None, b""
    try:
        for _ in range(_MOST_PNG_CHUNKS):
            length, name = _chunk(data, position)
            if name in _OF_INTEREST:
                place = position + 8
                if name == _TRANSPARENCY:
                    alpha = True
                elif name == _PROFILE:
                    icc = True
                elif name == _EXIF:
                    orientation = exif_orientation(data[place : place + length])
                elif name == _ANIMATION:
                    animated = _count(data, place)[0] > 1
                elif name == _TEXT:
                    if data.startswith(_XMP_KEY, place):
                        packet = data[place : place + length]
                else:
                    break
            position += 12 + length
    except error:
        pass
    if orientation is None:
        orientation = xmp_orientation(packet)
    return alpha, animated, icc, 1 if orientation is None else orientation


def read_webp(data: bytes) -> ImageHeader:
    """Return the header of bytes that start with ``RIFF....WEBP``.

    ``orientation`` stays 1: the EXIF chunk is at the end of the file, see ``webp_metadata``.
    ``length`` is claimed by the container; Pillow refuses a file that is shorter.
    """
    try:
        size, chunk = _riff(data)
        length = size + 8
        width = height = 0
        known = True
        alpha = animated = icc = False
        if chunk == b"VP8X":
            flags, wide, wider, high, higher = _extended(data, 20)
            width, height = (wide | wider << 16) + 1, (high | higher << 16) + 1
            alpha, animated, icc = (
                bool(flags & _ALPHA_FLAG),
                bool(flags & _ANIMATION_FLAG),
                bool(flags & _ICC_FLAG),
            )
        elif chunk == b"VP8L":
            signature, fields = _lossless(data, 20)
            width, height = (fields & 0x3FFF) + 1, (fields >> 14 & 0x3FFF) + 1
            alpha = bool(fields >> 28 & 1)
            known = signature == 0x2F
        elif chunk == b"VP8 ":
            start, across, down = _lossy(data, 23)
            width, height = across & 0x3FFF, down & 0x3FFF
            known = start == _START_CODE
        else:
            known = False
    except error:
        return ImageHeader("webp", 0, 0, "", needs=30, length=len(data) + 1)
    if not known or not width or not height:
        return ImageHeader("webp", 0, 0, "", length=length)
    mode = "RGBA" if alpha else "RGB"
    return ImageHeader(
        "webp", width, height, mode, animated=animated, alpha=alpha, icc=icc, length=length
    )


def webp_metadata(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the chunks ``EXIF`` and ``XMP `` of a WebP file whose header announces them: name, offset, size of the contents.

    ``read(offset, size)`` returns bytes of the file, ``size`` is its own; of other chunks nothing
    but the heads is read.
    """
    start = read(12, 9)
    if start[:4] != b"VP8X" or len(start) < 9 or not start[8] & (_EXIF_FLAG | _XMP_FLAG):
        return
    at = 12
    for _ in range(_MOST_WEBP_CHUNKS):
        if at + 8 > size:
            return
        head = read(at, 8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] in (b"EXIF", b"XMP "):
            yield head[:4], at + 8, min(length, size - at - 8)
        at += 8 + length + length % 2
