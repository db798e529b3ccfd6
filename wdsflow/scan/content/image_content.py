"""Contents of images: header, tables, whether readers decode them, and warnings of decoders."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, lru_cache, partial
from struct import Struct, error
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from wdsflow.images.header import MAX_HEADER
from wdsflow.images.image_header import UNREADABLE, ImageHeader, read_header
from wdsflow.images.jpeg import first_scan, keeps_busy, load_simplejpeg
from wdsflow.images.pillow import BOMB_PIXELS, MAX_IMAGE_PIXELS, open_image, quiet, silent_stderr
from wdsflow.scan.content.jpeg_tables import JpegTables, read_tables
from wdsflow.scan.evidence import BAD, BIG, BIG_BAD, BOMB, CUT, EMPTY, MARKUP, NOT_IMAGE, OK

# OpenCLIP 4's default of --max-image-pixels.
LARGE_PIXELS = 25_000_000
TINY_SIDE = 32
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
_TOLD_BY_HEADER = frozenset(("jpeg", "png", "gif", "webp", "bmp"))
_END_MARKS = {"jpeg": b"\xff\xd9", "png": b"IEND\xaeB`\x82", "gif": b"\x3b"}
# Samsung's.
_TRAILERS = (b"SEFT",)

_CAUSES = {
    "image.cut": CUT,
    "image.empty": EMPTY,
    "image.html": MARKUP,
    "image.not-image": NOT_IMAGE,
}

Strict = Literal["sound", "damaged", "cut", "unknown"]

_chunk = Struct(">I4s").unpack_from

# Warnings of libjpeg that valid files raise too: odd version numbers and unused parameters.
_CORRUPT, _CUT = "Corrupt JPEG data", "Premature end of JPEG file"
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
_GREY, _MOST_VISIBLE = 128, 125

_NOTES: dict[Strict, tuple[str, ...]] = {
    "damaged": ("image.damaged",),
    "cut": ("image.damaged", "image.cut"),
}
_PROBES = (0.0, 0.13, 0.31, 0.5, 0.67, 0.83, 0.99)
_TIFF = (b"II", b"MM")


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
    (
        name,
        width,
        height,
        mode,
        bits,
        orientation,
        animated,
        _progressive,
        alpha,
        _icc,
        needs,
        length,
    ) = header
    notes = _traits(name, mode, bits, orientation, animated, alpha, suffix.rpartition(".")[2])
    odd = (
        width < TINY_SIDE
        or height < TINY_SIDE
        or width * height > LARGE_PIXELS
        or not 0.1 <= width / height <= 10
    )
    if odd and width and height:
        notes += _measures(width, height)
    if length > size:
        notes += ("image.cut",)
    elif not needs and ((not mode and name in _READ_IN_FULL) or name in UNREADABLE):
        notes += ("image.undecodable",)
    return notes


@lru_cache(maxsize=1024)
def _traits(
    name: str, mode: str, bits: int, orientation: int, animated: bool, alpha: bool, extension: str
) -> tuple[str, ...]:
    """Return the notes that do not depend on size."""
    found = {
        "image.wrong-extension": _CLAIMED.get(extension, name) != name,
        "image.cmyk": mode == "CMYK",
        "image.high-depth": bits > 8 or mode[:1] == "I" or mode == "F",
        "image.alpha": alpha or mode in _ALPHA_MODES,
        "image.rotated": 2 <= orientation <= 8,
        "image.animated": animated,
    }
    return tuple(note for note, holds in found.items() if holds)


def _measures(width: int, height: int) -> tuple[str, ...]:
    pixels, short, long = width * height, min(width, height), max(width, height)
    found = {
        "image.large": pixels > LARGE_PIXELS,
        "image.bomb-warning": MAX_IMAGE_PIXELS < pixels <= BOMB_PIXELS,
        "image.bomb": pixels > BOMB_PIXELS,
        "image.tiny": short < TINY_SIDE,
        "image.extreme-aspect": long > 10 * short,
    }
    return tuple(note for note, holds in found.items() if holds)


def header_status(header: ImageHeader | None, size: int, max_image_pixels: int) -> str:
    """Return the status of the image by its header: OK, BAD, BOMB or BIG.

    BAD: no image, or one that Pillow refuses to open or has no decoder for. BOMB: more than twice
    Pillow's limit. BIG: more pixels than ``max_image_pixels``, if that is over 0.
    """
    if header is None or not size:
        return BAD
    if header.needs:
        return BAD if header.length > size else OK
    name, cut = header.format, header.length > size
    if name in UNREADABLE or (
        name in _READ_IN_FULL and (not header.mode or (cut and name in _CUT_IS_BAD))
    ):
        return BAD
    pixels = header.width * header.height
    return BOMB if pixels > BOMB_PIXELS else BIG if 0 < max_image_pixels < pixels else OK


def is_told_by_header(header: ImageHeader | None) -> bool:
    """Return whether an image with this header nearly always decodes, if it has its end.

    Of rare formats, and of those whose header is incomplete, only decoding tells.
    """
    return header is not None and not header.needs and header.format in _TOLD_BY_HEADER


def with_cause(status: str, notes: tuple[str, ...]) -> str:
    """Return the status of an image that does not decode with the reason, by its notes."""
    if status != BAD:
        return status
    return next((cause for note, cause in _CAUSES.items() if note in notes), BAD)


def ends_early(tail: bytes, header: ImageHeader) -> bool:
    """Return whether the end mark of a JPEG, PNG or GIF seems to be missing, by its last bytes.

    A hint, not a proof: appended bytes hide an end mark, which ``has_end`` finds. Zeros, line ends,
    and a trailer of text or of a phone are skipped.
    """
    if header.format not in _END_MARKS or _END_MARKS[header.format] in tail:
        return False
    rest = tail.rstrip(b"\0\r\n")
    return bool(rest) and not rest.endswith(_TRAILERS) and not (len(rest) >= 8 and rest.isascii())


def has_end(data: bytes, header: ImageHeader) -> bool:
    """Return whether the end mark of a JPEG or PNG is in a whole file, before bytes that were appended to it.

    That of a GIF is a single byte: any may be one.
    """
    # A JPEG's preview has its own end mark, in a segment before the picture's first scan.
    start = first_scan(data) if header.format == "jpeg" else 0
    return start is not None and data.find(_END_MARKS[header.format], start) >= 0


if TYPE_CHECKING:
    from numpy import ndarray
    from PIL.Image import Image


def decode_jpeg_strictly(
    decode: Callable[..., "ndarray"], data: bytes, tables: JpegTables | None
) -> tuple[str, bool, bool]:
    """Decode a JPEG at 1/8 of its size, which reads every entropy-coded byte all the same.

    Returns libjpeg's warning or error, "" if it has none; whether the pixels show damage even so;
    and whether all pixels may be one colour.

    libjpeg notices damage only where the number of blocks comes out wrong. If it comes out right by
    chance, the brightness of all later blocks is still off by some amount, as each is stored as a
    difference from the last one. A mean brightness that no 8-bit picture has is proof: a smaller
    quantization step for the mean shows it without clipping.
    """
    place, wide, step = tables.mean if tables is not None else (0, False, 0)
    visible, limit = _visible_step(step) if place else (0, 0.0)
    changed = data
    if visible:
        width = 2 if wide else 1
        changed = b"".join(
            (data[:place], visible.to_bytes(width, "big"), memoryview(data)[place + width :])
        )
    try:
        pixels = decode(changed, strict=True)
    except ValueError as exception:
        return str(exception), False, False
    low, high = int(pixels.min()), int(pixels.max())
    impossible = visible > 0 and (high - _GREY > limit or _GREY - low > limit)
    return "", impossible, low == high


@cache
def _visible_step(step: int) -> tuple[int, float]:
    """Return a step of the mean that shows impossible means without clipping them, and the limit of possible means.

    A block's mean coefficient is within -1024 and 1016 for 8-bit samples (ITU T.81, annex A.3.3,
    less the level shift). Two steps and 4 grey levels of slack are left for encoders that round in
    their own way. The limit is in grey levels of the changed picture, at 1/8 level a step; (0, 0.0)
    where there is no room.
    """
    possible = (1024 + 32) / step + 2 if step >= 1 else _MOST_VISIBLE * 8
    limits = ((visible, possible * visible / 8 + 1) for visible in range(8, 0, -1))
    return next(((visible, limit) for visible, limit in limits if limit <= _MOST_VISIBLE), (0, 0.0))


def judge_warning(message: str, decode: Callable[..., object], data: bytes) -> Strict:
    """Return the meaning of a warning of libjpeg for a JPEG that Pillow decodes.

    Damage, or an unknown kind of JPEG: simplejpeg refuses that without ``strict`` too.
    """
    if _CUT in message:
        return "cut"
    if message.startswith(_CORRUPT):
        return "damaged"
    if any(benign in message for benign in _BENIGN):
        return "unknown"
    try:
        decode(data, strict=False)
    except ValueError:
        return "unknown"
    return "damaged"


def check_png(data: bytes) -> Strict:
    """Compare the checksums of all chunks of a PNG. Pillow skips those of the image data."""
    view = memoryview(data)
    position = 8
    try:
        while True:
            length, name = _chunk(view, position)
            end = position + 12 + length
            if end > len(view):
                return "cut"
            if crc32(view[position + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
                return "damaged"
            if name == b"IEND":
                return "sound"
            position = end
    except error:
        return "cut"


def decode_image(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    """Return ``(status, notes)`` of an image decoded in full.

    Status is the verdict of Pillow's ``open``, ``load`` and ``convert("RGB")`` under its default
    settings: OK or BAD; BOMB for more than twice its limit of pixels; BIG or BIG_BAD for more than
    ``max_image_pixels``, if that is over
    0. Bytes that are no image at all get BAD without a note: ``image_notes`` has a better one.

    A JPEG is decoded strictly at 1/8 size first: where that succeeds Pillow's decoder does too, as
    both are libjpeg. Pillow itself decodes only where it fails, or where simplejpeg is not
    installed.
    """
    header = read_header(data[:MAX_HEADER])
    if header is None:
        return BAD, ()
    if header.format in UNREADABLE:
        return BAD, ("image.undecodable",)
    if header.format == "jpeg" and header.mode:
        return _decode_jpeg(data, header, max_image_pixels)
    status, notes = _decode_with_pillow(data, max_image_pixels)
    if header.format == "png" and status in (OK, BIG):
        notes = _NOTES.get(check_png(data), ()) + notes
    return status, notes


def _decode_jpeg(
    data: bytes, header: ImageHeader, max_image_pixels: int
) -> tuple[str, tuple[str, ...]]:
    pixels = header.width * header.height
    big = 0 < max_image_pixels < pixels
    if header.progressive and keeps_busy(data, pixels):
        return BIG_BAD if big else BAD, ("image.undecodable",)
    found = load_simplejpeg()
    if found is None or pixels > BOMB_PIXELS:
        return _decode_with_pillow(data, max_image_pixels)
    tables = read_tables(data)
    if not (tables is not None and tables.plain) and not opens(data):
        return BIG_BAD if big else BAD, ("image.undecodable",)
    colorspace = "CMYK" if header.mode == "CMYK" else "GRAY"
    decode = partial(found, colorspace=colorspace, min_height=1, min_width=1)
    warning, damaged, uniform = decode_jpeg_strictly(decode, data, tables)
    if not warning and not uniform:
        return BIG if big else OK, _NOTES["damaged"] if damaged else ()
    # One grey may still be many colours: only a full decode shows. After a warning, Pillow's
    # verdict is open.
    status, notes = _decode_with_pillow(data, max_image_pixels)
    if warning and status in (OK, BIG):
        notes = _NOTES.get(judge_warning(warning, decode, data), ()) + notes
    return status, notes


def opens(data: bytes) -> bool:
    """Return whether Pillow opens an image, which reads no pixels."""
    with quiet():
        try:
            with open_image(data):
                return True
        except Exception:  # noqa: BLE001 - Pillow's plugins raise whatever their parsers raise
            return False


def _decode_with_pillow(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    from PIL import Image

    big = False
    with quiet(), silent_stderr() if data.startswith(_TIFF) else nullcontext():
        try:
            with open_image(data) as image:
                big = 0 < max_image_pixels < image.width * image.height
                image.load()
                # Whether it converts depends on mode and palette: one pixel is enough.
                if image.mode != "RGB":
                    image.crop((0, 0, 1, 1)).convert("RGB")
                notes = ("image.uniform",) if _is_uniform(image) else ()
        except Image.DecompressionBombError:
            return BOMB, ()
        except Exception as exception:  # noqa: BLE001 - Pillow's plugins raise whatever their parsers raise
            cut = "truncated" in str(exception).lower()
            return BIG_BAD if big else BAD, ("image.undecodable", "image.cut") if cut else (
                "image.undecodable",
            )
    return BIG if big else OK, notes


def _is_uniform(image: "Image") -> bool:
    """Return whether all pixels have one colour; transparency is left out, as in ``convert("RGB")``."""
    with_alpha = image.mode in ("RGBA", "LA", "PA")
    colours = len(image.getbands()) - with_alpha
    seen = set()
    # A few pixels rule out nearly all images at no cost.
    for place in _PROBES:
        pixel = image.getpixel((int(place * image.width), int(place * image.height)))
        seen.add(pixel[:colours] if isinstance(pixel, tuple) else pixel)
    if len(seen) > 1:
        return False
    extremes = (image.convert(image.mode[:-1]) if with_alpha else image).getextrema()
    return all(
        low == high for low, high in (extremes if isinstance(extremes[0], tuple) else (extremes,))
    )
