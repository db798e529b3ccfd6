"""The header of a Windows bitmap."""

from struct import Struct, error

from .header import ImageHeader

_offset_and_size = Struct("<10xII").unpack_from
_core = Struct("<HHHH").unpack_from
_info = Struct("<IIHHI12xI").unpack_from
_masks = Struct("<III").unpack_from
_long = Struct("<I").unpack_from

_CORE_SIZE, _INFO_SIZES = 12, frozenset((40, 52, 56, 64, 108, 124))
_MODES = {1: "P", 4: "P", 8: "P", 16: "RGB", 24: "RGB", 32: "RGB"}
_RAW, _RLE8, _RLE4, _BITFIELDS = range(4)
# The bit layouts that Pillow knows: red, green, blue, alpha -> does it give an alpha channel?
_MASKS_32 = {
    (0xFF0000, 0xFF00, 0xFF, 0): False,
    (0xFF000000, 0xFF0000, 0xFF00, 0): False,
    (0xFF000000, 0xFF00, 0xFF, 0): False,
    (0xFF000000, 0xFF0000, 0xFF00, 0xFF): True,
    (0xFF, 0xFF00, 0xFF0000, 0xFF000000): True,
    (0xFF0000, 0xFF00, 0xFF, 0xFF000000): True,
    (0xFF000000, 0xFF00, 0xFF, 0xFF0000): True,
    (0, 0, 0, 0): True,
}
_MASKS = {24: ((0xFF0000, 0xFF00, 0xFF),), 16: ((0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F))}


def read_bmp(data: bytes) -> ImageHeader:
    """Return the header of bytes that start with ``BM``; ``mode`` is "" where Pillow refuses the layout."""
    try:
        start, size = _offset_and_size(data)
        compression = colours = 0
        if size == _CORE_SIZE:
            width, height, _planes, bits = _core(data, 18)
        elif size in _INFO_SIZES:
            width, height, _planes, bits, compression, colours = _info(data, 18)
            if data[25] == 0xFF:  # rows run downwards
                height = (1 << 32) - height
        else:
            return ImageHeader("bmp", 0, 0, "")
        mode = _MODES.get(bits, "")
        alpha = False
        if compression == _BITFIELDS:
            alpha, known = _bitfields(data, size, bits)
            mode = ("RGBA" if alpha else mode) if known else ""
        elif compression not in (_RAW, _RLE8, _RLE4):
            mode = ""
        if mode == "P":
            mode = _palette_mode(data, 14 + size, colours or 1 << bits, 3 if size == _CORE_SIZE else 4)
    except (error, IndexError):
        return ImageHeader("bmp", 0, 0, "", needs=2048, length=len(data) + 1)
    if not width or not height:
        mode = ""
    length = 0
    if compression in (_RAW, _BITFIELDS) and height:  # the last row may lack its padding
        length = start + ((width * bits + 31) >> 5 << 2) * (height - 1) + (width * bits + 7 >> 3)
    return ImageHeader("bmp", width, height, mode, min(bits, 8), alpha=alpha, length=length)


def _bitfields(data: bytes, size: int, bits: int) -> tuple[bool, bool]:
    """Return whether the layout has alpha, and whether Pillow knows it."""
    masks = _masks(data, 54)
    if bits == 32:
        layout = (*masks, _long(data, 66)[0] if size >= 56 else 0)
        return _MASKS_32.get(layout, False), layout in _MASKS_32
    return False, masks in _MASKS.get(bits, ())


def _palette_mode(data: bytes, start: int, colours: int, step: int) -> str:
    """Return "1" or "L" where the palette is plain greys in order, else "P"; "" for an impossible number."""
    if colours > 65536:
        return ""
    if colours > 256:
        return "P"
    greys = (0, 255) if colours == 2 else range(colours)
    for index, grey in enumerate(greys):
        place = start + index * step
        if data[place : place + 3] != bytes((grey, grey, grey)):
            return "P"
    return "1" if colours <= 2 else "L"
