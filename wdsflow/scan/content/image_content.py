"""What is in an image: its header, its tables, and whether it decodes."""

from functools import lru_cache
from struct import Struct, error
from typing import NamedTuple

from wdsflow.images.image_header import UNREADABLE, ImageHeader
from wdsflow.images.jpeg import first_scan
from wdsflow.images.pillow import BOMB_PIXELS, MAX_IMAGE_PIXELS
from wdsflow.scan.evidence import BAD, BIG, BOMB, OK

_segment = Struct(">BBH").unpack_from

_APP0, _APP1, _APP2, _APP14 = 0xE0, 0xE1, 0xE2, 0xEE
_QUANTIZERS, _SCAN = 0xDB, 0xDA
_FRAMES = (0xC0, 0xC1, 0xC2)
_FRAME = _FRAMES[0]  # any of them
_SKIPPED = frozenset((0xC4, 0xDD, 0xFE)) | frozenset(range(0xE3, 0xF0))  # tables, comments, application segments
_MOST_SEGMENTS = 10_000
_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_JFIF, _ADOBE, _MULTI_PICTURE = b"JFIF\0", b"Adobe", b"MPF\0"
# Pillow reads into these segments without asking for their length, and gives up where they are shorter.
_SHORTEST = {_APP0: 14, _APP2: 16, _APP14: 14}

Step = tuple[int, bool, int]  # place in the file, stored in two bytes?, value


class JpegTables(NamedTuple):
    """What is before the first scan of a JPEG."""

    plain: bool  # nothing in it that Pillow's ``open`` could stumble on where libjpeg does not
    mean: Step  # quantization step of the mean of a luminance block; its place is 0 where there is no luminance


def read_tables(data: bytes) -> JpegTables | None:
    """Return the tables of a JPEG, None if the walk meets anything unusual: then only Pillow can tell.

    ``plain`` is false where Pillow would read EXIF or multi-picture data, or a segment is too short for it.
    """
    position = 2
    plain = True
    steps: dict[int, Step] = {}
    seen: dict[int, bytes] = {}
    try:
        for _ in range(_MOST_SEGMENTS):
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF or length < 2:
                return None
            start, end = position + 4, position + 2 + length
            if marker == _QUANTIZERS:
                _read_steps(data, start, end, steps)
            elif marker in _FRAMES:
                seen[_FRAME] = data[start:end]
            elif marker == _APP1:
                plain = plain and data.startswith(_XMP, start)
            elif marker in _SHORTEST:
                seen.setdefault(marker, data[start : start + 12])
                if length < _SHORTEST[marker] or data.startswith(_MULTI_PICTURE, start):
                    plain = False
            elif marker == _SCAN:
                return JpegTables(plain, _mean_of_luminance(seen, steps))
            elif marker not in _SKIPPED:
                return None
            position = end
    except (error, IndexError, KeyError):
        pass
    return None


def _read_steps(data: bytes, position: int, end: int, steps: dict[int, Step]) -> None:
    """Note the first step of each table of a segment."""
    while position < end:
        wide, table, first = data[position] >> 4, data[position] & 15, data[position + 1]
        steps[table] = (position + 1, bool(wide), first << 8 | data[position + 2] if wide else first)
        position += 129 if wide else 65


def _mean_of_luminance(seen: dict[int, bytes], steps: dict[int, Step]) -> Step:
    """Return the step for the first component, if libjpeg takes that for luminance."""
    frame, adobe = seen[_FRAME], seen.get(_APP14, b"")
    rgb = frame[6:15:3] == b"RGB" or (adobe.startswith(_ADOBE) and adobe[11] == 0)
    luminance = frame[5] == 1 or (frame[5] == 3 and (not rgb or seen.get(_APP0, b"").startswith(_JFIF)))
    return steps[frame[8]] if luminance else (0, False, 0)


LARGE_PIXELS = 25_000_000  # OpenCLIP 4's default of --max-image-pixels
TINY_SIDE = 32
EXTREME_ASPECT = 10

_READ_IN_FULL = frozenset(("jpeg", "png", "gif", "webp", "bmp"))
_EXTENSIONS = {
    "jpeg": frozenset(("jpg", "jpeg", "jpe", "jfif")),
    "png": frozenset(("png", "apng")),
    "gif": frozenset(("gif",)),
    "webp": frozenset(("webp",)),
    "bmp": frozenset(("bmp", "dib")),
    "tiff": frozenset(("tif", "tiff")),
    "jp2": frozenset(("jp2", "j2k", "jpc", "jpf", "jpx", "j2c")),
}
_CLAIMED = {extension: name for name, extensions in _EXTENSIONS.items() for extension in extensions}
_ALPHA_MODES = frozenset(("RGBA", "LA", "PA", "La", "RGBa"))
_MARKUP = (b"<", b"{", b"[")
_CUT_IS_BAD = frozenset(("webp", "bmp"))
_END_MARKS = {"jpeg": b"\xff\xd9", "png": b"IEND\xaeB`\x82"}
_TRAILERS = (b"SEFT",)  # Samsung's


def image_notes(header: ImageHeader | None, suffix: str, head: bytes, size: int) -> tuple[str, ...]:
    """Return the names of the tallies that an image adds to, by its header.

    ``suffix`` is the field name in lower case, ``head`` the first bytes, ``size`` the whole file's. Bytes that
    are no image get "image.html" or "image.not-image"; an image that Pillow refuses by its header alone gets
    "image.undecodable", or "image.cut" where the file ends too early for it.
    """
    if header is None:
        if not size:
            return ("image.empty",)
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return ("image.html",) if start.startswith(_MARKUP) else ("image.not-image",)
    name, width, height, mode, bits, orientation, animated, _progressive, alpha, _icc, needs, length = header
    notes = _traits(name, mode, bits, orientation, animated, alpha, suffix)
    if width < TINY_SIDE or height < TINY_SIDE or width * height > LARGE_PIXELS or not 0.1 <= width / height <= 10:
        notes += _measures(width, height)
    if length > size:
        notes += ("image.cut",)
    elif not needs and ((not mode and name in _READ_IN_FULL) or name in UNREADABLE):
        notes += ("image.undecodable",)
    return notes


@lru_cache(maxsize=1024)
def _traits(
    name: str, mode: str, bits: int, orientation: int, animated: bool, alpha: bool, suffix: str
) -> tuple[str, ...]:
    """Return the notes that do not depend on size: few distinct arguments, so they are remembered."""
    claimed = _CLAIMED.get(suffix.rpartition(".")[2].lower())
    found = {
        "image.wrong-extension": claimed is not None and claimed != name,
        "image.cmyk": mode == "CMYK",
        "image.high-depth": bits > 8 or mode[:1] == "I" or mode == "F",
        "image.alpha": alpha or mode in _ALPHA_MODES,
        "image.rotated": 2 <= orientation <= 8,
        "image.animated": animated,
    }
    return tuple(note for note, holds in found.items() if holds)


def _measures(width: int, height: int) -> tuple[str, ...]:
    """Return the notes on size and shape; none if the size is unknown."""
    if width <= 0 or height <= 0:
        return ()
    pixels, short, long = width * height, min(width, height), max(width, height)
    found = {
        "image.large": pixels > LARGE_PIXELS,
        "image.bomb-warning": MAX_IMAGE_PIXELS < pixels <= BOMB_PIXELS,
        "image.bomb": pixels > BOMB_PIXELS,
        "image.tiny": short < TINY_SIDE,
        "image.extreme-aspect": long > EXTREME_ASPECT * short,
    }
    return tuple(note for note, holds in found.items() if holds)


def header_status(header: ImageHeader | None, size: int, max_image_pixels: int) -> str:
    """Return what becomes of the image as far as its header tells: OK, BAD, BOMB or BIG.

    BAD: no bytes, no image, an image that Pillow refuses to open, or has no decoder for. BOMB: more than twice
    Pillow's limit. BIG: more pixels than ``max_image_pixels``, if that is over 0.
    """
    if header is None or not size:
        return BAD
    if header.needs:
        return BAD if header.length > size else OK
    name = header.format
    if name in _READ_IN_FULL:
        if not header.mode or (header.length > size and name in _CUT_IS_BAD):
            return BAD
    elif name in UNREADABLE:
        return BAD
    pixels = header.width * header.height
    if pixels > BOMB_PIXELS:
        return BOMB
    return BIG if 0 < max_image_pixels < pixels else OK


def ends_early(tail: bytes, header: ImageHeader | None) -> bool:
    """Tell from the last bytes whether the end mark of a JPEG or PNG is missing.

    A hint, not a proof: bytes appended after the end mark hide it, which ``has_end`` finds. Zeros and line ends are passed over, and so is a
    trailer of text or a phone's own. Other formats say nothing.
    """
    if header is None or header.format not in _END_MARKS:
        return False
    if _END_MARKS[header.format] in tail:
        return False
    rest = tail.rstrip(b"\0\r\n")
    return bool(rest) and not rest.endswith(_TRAILERS) and not (len(rest) >= 8 and rest.isascii())


def has_end(data: bytes, header: ImageHeader) -> bool:
    """Return whether the end mark of a JPEG or PNG is in a whole file, before bytes that were appended to it.

    A JPEG's preview has its own end mark, in a segment before the picture's first scan: that one does not count.
    """
    start = first_scan(data) if header.format == "jpeg" else 0
    return start is not None and data.find(_END_MARKS[header.format], start) >= 0
