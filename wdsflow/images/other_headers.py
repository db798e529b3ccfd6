"""Image formats beyond the five usual ones: told by their magic bytes, sizes where they are easy to read."""

import re
from struct import Struct, error

from .header import ImageHeader

_two_longs = Struct(">II").unpack_from
_HEIC = frozenset((b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"))
_AVIF = frozenset((b"avif", b"avis"))
_SVG = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*|<!--.{0,2000}?-->\s*|<!DOCTYPE\s+svg[^>]*>\s*)*<svg[\s>]", re.IGNORECASE | re.DOTALL
)
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_TIFF_MODES = {(1, 1): "1", (1, 8): "L", (1, 16): "I;16", (1, 32): "I", (3, 8): "RGB", (4, 8): "RGBA", (3, 16): "RGB"}

# Formats that Pillow has no decoder for, or only names; and those for which it would run another program (eps)
# or open what lies inside (iptc), which is never done here.
UNREADABLE = frozenset("bufr emf eps exr grib hdf5 heic iptc jxl mp4 mpeg pdf svg wmf".split())
_SEARCHED = 1 << 16  # bytes

_LOADED_WHEN_OPENED = frozenset(("ICO", "ICNS"))  # the first bytes alone do not open these

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "pdf"),
    (b"\xff\x0a", "jxl"),
    (b"\0\0\0\x0cJXL ", "jxl"),
    (b"v/1\x01", "exr"),
    (b"%!PS", "eps"),
    (b"\xc5\xd0\xd3\xc6", "eps"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\0\0\x01\xb3", "mpeg"),
    (b"\xff\x4f\xff\x51", "jp2"),
)


def read_other(data: bytes) -> ImageHeader | None:
    """Return the header of any other image format, None for bytes that are no image.

    Where neither the magic nor Pillow's own plugins tell more, width and height are 0 and the mode is "".
    """
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return _jpeg2000_codestream(data) if name == "jp2" else ImageHeader(name, 0, 0, "")
    if data[4:8] == b"ftyp":
        return _iso_media(data)
    if data.startswith(b"\0\0\0\x0cjP  \r\n\x87\n"):
        return _jpeg2000(data)
    if data.startswith(_TIFF):
        return _tiff(data)
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"<":
        return ImageHeader("svg", 0, 0, "") if _SVG.match(data[:4096].lstrip(b"\xef\xbb\xbf")) else None
    if start in (b"", b"{", b"["):
        return None
    return _ask_pillow(data)


def _iso_media(data: bytes) -> ImageHeader | None:
    brands = {data[place : place + 4] for place in (8, *range(16, min(64, int.from_bytes(data[:4], "big")), 4))}
    name = "avif" if brands & _AVIF else "heic" if brands & _HEIC else "mp4"
    width = height = 0
    place = data.find(b"ispe", 0, _SEARCHED)
    while place >= 0 and name != "mp4":  # the largest one: thumbnails and tiles have their own
        try:
            across, down = _two_longs(data, place + 8)
        except error:
            break
        if across * down > width * height:
            width, height = across, down
        place = data.find(b"ispe", place + 4, _SEARCHED)
    return ImageHeader(name, width, height, "")


def _jpeg2000(data: bytes) -> ImageHeader:
    place = data.find(b"ihdr", 0, 256)
    try:
        height, width = _two_longs(data, place + 4)
    except error:
        width = height = 0
    return ImageHeader("jp2", width if place >= 0 else 0, height if place >= 0 else 0, "")


def _jpeg2000_codestream(data: bytes) -> ImageHeader:
    try:
        right, bottom = _two_longs(data, 8)
        left, top = _two_longs(data, 16)
    except error:
        return ImageHeader("jp2", 0, 0, "")
    return ImageHeader("jp2", max(right - left, 0), max(bottom - top, 0), "")


def _tiff(data: bytes) -> ImageHeader:
    """Read the first directory where it lies within ``data``; writers often put it at the end of the file."""
    order: str = "<" if data[:1] == b"I" else ">"
    short, long = Struct(order + "H").unpack_from, Struct(order + "I").unpack_from
    tags: dict[int, int] = {}
    try:
        if 42 not in data[2:4]:
            return ImageHeader("tiff", 0, 0, "")
        (directory,) = long(data, 4)
        (entries,) = short(data, directory)
        for place in range(directory + 2, directory + 2 + 12 * min(entries, 64), 12):
            tag, kind, count = short(data, place)[0], short(data, place + 2)[0], long(data, place + 4)[0]
            # More than two shorts do not fit into the entry: it holds the place where they lie.
            value = long(data, place + 8)[0] if kind == 3 and count > 2 else place + 8
            tags[tag] = (short if kind == 3 else long)(data, value)[0]
    except error:
        pass
    channels, bits = tags.get(277, 1), tags.get(258, 1)
    mode = "CMYK" if tags.get(262) == 5 else "P" if tags.get(262) == 3 else _TIFF_MODES.get((channels, bits), "")
    if mode == "I" and tags.get(339) == 3:
        mode = "F"
    width, height = tags.get(256, 0), tags.get(257, 0)
    return ImageHeader("tiff", width, height, mode if width else "", bits, tags.get(274, 1), alpha=mode == "RGBA")


def _ask_pillow(data: bytes) -> ImageHeader | None:
    """Let Pillow's plugins look at the bytes, without its limit on pixels."""
    from io import BytesIO

    from PIL import Image

    from .pillow import quiet

    with quiet():
        Image.init()
        for name in Image.ID:
            factory, accept = Image.OPEN[name]
            accepted: bool | str = False
            try:
                accepted = not accept or accept(data[:16])
                if accepted and not isinstance(accepted, str):
                    with factory(BytesIO(data), "") as image:
                        width, height = image.size
                        return ImageHeader(name.lower(), width, height, image.mode)
            except Exception:  # noqa: BLE001 - a plugin may fail in any way on bytes that are not its own
                if accepted is True and name in _LOADED_WHEN_OPENED:
                    return ImageHeader(name.lower(), 0, 0, "")
    return None
