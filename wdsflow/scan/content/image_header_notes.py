"""What the header of an image says: tallies, and whether readers decode it."""

from functools import lru_cache

from wdsflow.images.image_header import UNREADABLE, ImageHeader
from wdsflow.images.pillow import BOMB_PIXELS, MAX_IMAGE_PIXELS
from wdsflow.scan.statuses import BAD, BIG, BOMB, CUT, EMPTY, MARKUP, NOT_IMAGE, OK

# OpenCLIP 4's default of --max-image-pixels.
LARGE_PIXELS = 25_000_000
TINY_SIDE = 32
# Formats of which our code reads all of the header: without a mode, nothing decodes them.
_READ_IN_FULL = frozenset(("jpeg", "png", "gif", "webp", "bmp"))
# Formats whose header and end nearly always decide.
_DECODABLE_BY_HEADER = _READ_IN_FULL
# Formats that Pillow does not decode in part.
_CUT_IS_BAD = frozenset(("webp", "bmp"))
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

_CAUSES = {
    "image.cut": CUT,
    "image.empty": EMPTY,
    "image.html": MARKUP,
    "image.not-image": NOT_IMAGE,
}


def image_notes(header: ImageHeader | None, suffix: str, head: bytes, size: int) -> tuple[str, ...]:
    """Return the names of the tallies that an image adds to, by its header.

    ``suffix`` is the field name in lower case, ``head`` the first bytes, ``size`` the whole file's.
    An image that Pillow refuses by its header alone gets "image.undecodable", or "image.cut" where
    the file ends too early for it.
    """
    if header is None:
        if not size:
            return ("image.empty",)
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return ("image.html",) if start.startswith(_MARKUP) else ("image.not-image",)
    extension = suffix.rpartition(".")[2]
    notes = _traits(
        header.format,
        header.mode,
        header.bits,
        header.orientation,
        header.animated,
        header.alpha,
        extension,
    )
    if header.width and header.height:
        notes += _size_notes(header.width, header.height)
    if header.length > size:
        notes += ("image.cut",)
    elif not header.needs and _is_undecodable(header):
        notes += ("image.undecodable",)
    return notes


@lru_cache(maxsize=1024)
def _traits(
    name: str, mode: str, bits: int, orientation: int, animated: bool, alpha: bool, extension: str
) -> tuple[str, ...]:
    """Return the notes that do not depend on size."""
    traits = {
        "image.wrong-extension": _CLAIMED.get(extension, name) != name,
        "image.cmyk": mode == "CMYK",
        "image.high-depth": bits > 8 or mode[:1] == "I" or mode == "F",
        "image.alpha": alpha or mode in _ALPHA_MODES,
        "image.rotated": 2 <= orientation <= 8,
        "image.animated": animated,
    }
    return tuple(note for note, holds in traits.items() if holds)


def _is_undecodable(header: ImageHeader) -> bool:
    """Return whether Pillow has no decoder for an image, by its header."""
    if header.format in UNREADABLE:
        return True
    return not header.mode and header.format in _READ_IN_FULL


def _size_notes(width: int, height: int) -> tuple[str, ...]:
    pixels = width * height
    short, long = min(width, height), max(width, height)
    # Most images are neither.
    if short >= TINY_SIDE and pixels <= LARGE_PIXELS and long <= 10 * short:
        return ()
    traits = {
        "image.large": pixels > LARGE_PIXELS,
        "image.bomb-warning": MAX_IMAGE_PIXELS < pixels <= BOMB_PIXELS,
        "image.bomb": pixels > BOMB_PIXELS,
        "image.tiny": short < TINY_SIDE,
        "image.extreme-aspect": long > 10 * short,
    }
    return tuple(note for note, holds in traits.items() if holds)


def header_status(header: ImageHeader | None, size: int, max_image_pixels: int) -> str:
    """Return the status of the image by its header: OK, BAD, BOMB or BIG.

    BAD: no image, or one that Pillow refuses to open or has no decoder for. BOMB: more than twice
    Pillow's limit. BIG: more pixels than ``max_image_pixels``, if that is over 0.
    """
    if header is None or not size:
        return BAD
    if header.needs:
        return BAD if header.length > size else OK
    if _is_undecodable(header):
        return BAD
    if header.length > size and header.format in _CUT_IS_BAD:
        return BAD
    pixels = header.width * header.height
    if pixels > BOMB_PIXELS:
        return BOMB
    return BIG if 0 < max_image_pixels < pixels else OK


def is_decodable_by_header(header: ImageHeader | None) -> bool:
    """Return whether an image with this header nearly always decodes, if it has its end.

    Of rare formats, and of those whose header is incomplete, only decoding tells.
    """
    return header is not None and not header.needs and header.format in _DECODABLE_BY_HEADER


def with_cause(status: str, notes: tuple[str, ...]) -> str:
    """Return the status of an image that does not decode with the reason, by its notes."""
    if status != BAD:
        return status
    for note, cause in _CAUSES.items():
        if note in notes:
            return cause
    return BAD
