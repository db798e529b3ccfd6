"""Headers of GIF images."""

from struct import Struct, error

from .header import ImageHeader, more_bytes

_screen = Struct("<HHBBB").unpack_from
_frame = Struct("<HHHHB").unpack_from

_GREYS = bytes(value for level in range(256) for value in (level, level, level))
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _APPLICATION = 0xF9, 0xFF
_MOST_BLOCKS = 100_000
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


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
        position, alpha, loops = _next_frame(data, position)
        if position < 0:
            return ImageHeader("gif", 0, 0, "")
        left, top, across, down, flags = _frame(data, position + 1)
        position += 10
        if flags & 0x80:
            coloured, position = _palette(data, position, flags)
    except (error, IndexError):
        return ImageHeader("gif", 0, 0, "", needs=more_bytes(len(data)), length=len(data) + 1)
    width, height = max(width, left + across), max(height, top + down)
    mode = ""
    if width and height:
        mode = "P" if coloured else "L"
    animated = loops or _has_second_frame(data, position + 1)
    return ImageHeader("gif", width, height, mode, 8, 1, animated, bool(flags & 0x40), alpha)


def _palette(data: bytes, position: int, flags: int) -> tuple[bool, int]:
    """Return whether the palette has colours, and where it ends."""
    size = 3 << ((flags & 7) + 1)
    end = position + size
    if end > len(data):
        raise IndexError
    return data[position:end] != _GREYS[:size], end


def _next_frame(data: bytes, position: int) -> tuple[int, bool, bool]:
    """Return the position of the next frame's descriptor, its transparency, and the loop flag.

    The position is -1 if no frame follows.
    """
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
        return _next_frame(data, _skip_blocks(data, position))[0] >= 0
    except IndexError:
        return False
