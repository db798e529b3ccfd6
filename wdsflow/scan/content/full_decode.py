"""Decodes images as readers do, and judges what decoders warn of."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from io import BytesIO
from struct import Struct, error
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from wdsflow.images.header import MAX_HEADER
from wdsflow.images.image_header import UNREADABLE, ImageHeader, read_header
from wdsflow.images.jpeg import keeps_busy, load_simplejpeg
from wdsflow.images.pillow import BOMB_PIXELS, quiet, silent_stderr
from wdsflow.scan.evidence import BAD, BIG, BIG_BAD, BOMB, OK

from .image_content import JpegTables, read_tables

if TYPE_CHECKING:
    from PIL.Image import Image


Strict = Literal["sound", "damaged", "cut", "unknown"]

_chunk = Struct(">I4s").unpack_from

# Warnings of libjpeg that valid files raise too: odd version numbers and unused parameters.
_CORRUPT, _CUT = "Corrupt JPEG data", "Premature end of JPEG file"
_BENIGN = ("Invalid SOS parameters", "unknown JFIF revision", "Unknown Adobe color transform")
_COLORSPACES = {"CMYK": "CMYK"}
_GREY, _MOST_VISIBLE = 128, 125


def decode_jpeg_strictly(
    decode: Callable[..., Any], data: bytes, mode: str, tables: JpegTables | None
) -> tuple[str, bool, bool]:
    """Decode a JPEG at 1/8 of its size, which reads every entropy-coded byte all the same.

    Returns libjpeg's warning or error, "" if it has none, so that Pillow decodes it too; whether the pixels show
    damage even so; and whether all pixels may be one colour.

    libjpeg notices damage only where the number of blocks comes out wrong. If it comes out right by chance, the
    brightness of all later blocks is still off by some amount, as each is stored as a difference from the last one. A
    mean brightness that no 8-bit picture has is proof: it is made visible by decoding with a smaller quantization step
    for the mean, so that nothing is clipped.
    """
    place, wide, step = tables.mean if tables is not None else (0, False, 0)
    visible, limit = _visible_step(step) if place else (0, 0.0)
    changed = data
    if visible:
        width = 2 if wide else 1
        changed = b"".join((data[:place], visible.to_bytes(width, "big"), memoryview(data)[place + width :]))
    try:
        pixels = decode(changed, _COLORSPACES.get(mode, "GRAY"), min_height=1, min_width=1, strict=True)
    except ValueError as exception:
        return str(exception), False, False
    low, high = int(pixels.min()), int(pixels.max())
    impossible = visible > 0 and (high - _GREY > limit or _GREY - low > limit)
    return "", impossible, low == high


@cache
def _visible_step(step: int) -> tuple[int, float]:
    """Return a step of the mean that shows impossible means without clipping them, and the limit of what is possible.

    A block's mean coefficient is within -1024 and 1016 for 8-bit samples (ITU T.81, annex A.3.3, less the level
    shift). Two steps and 4 grey levels of slack are left for encoders that round in their own way. The limit is in
    grey levels of the changed picture, at 1/8 level a step; (0, 0.0) where there is no room.
    """
    if step < 1:
        return 0, 0.0
    possible = (1024 + 32) / step + 2
    for visible in range(8, 0, -1):
        limit = possible * visible / 8 + 1
        if limit <= _MOST_VISIBLE:
            return visible, limit
    return 0, 0.0


def judge_warning(message: str, decode: Callable[..., object], data: bytes, mode: str) -> Strict:
    """Tell what a warning of libjpeg means for a JPEG that Pillow decodes.

    Damage, or a kind of JPEG that simplejpeg does not know: that it refuses without ``strict`` too.
    """
    if _CUT in message:
        return "cut"
    if message.startswith(_CORRUPT):
        return "damaged"
    if any(benign in message for benign in _BENIGN):
        return "unknown"
    try:
        decode(data, _COLORSPACES.get(mode, "GRAY"), min_height=1, min_width=1, strict=False)
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


_NOTES: dict[Strict, tuple[str, ...]] = {"damaged": ("image.damaged",), "cut": ("image.damaged", "image.cut")}
_PROBES = (0.0, 0.13, 0.31, 0.5, 0.67, 0.83, 0.99)
# Opened by running a program (Ghostscript), or by opening what they contain.
_NEVER_OPENED = frozenset(("EPS", "IPTC"))
_TIFF = (b"II", b"MM")


def decode_image(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    """Return ``(status, notes)`` of an image decoded in full.

    Status is the verdict of Pillow's ``open``, ``load`` and ``convert("RGB")`` under its default settings: OK or
    BAD; BOMB for more than twice its limit of pixels; BIG or BIG_BAD where there are more pixels than
    ``max_image_pixels``, if that is over 0. Notes: "image.undecodable" (with "image.cut" where Pillow says
    truncated), "image.damaged" where a strict decoder finds damage in an image that Pillow takes,
    "image.uniform". Bytes that are no image at all get BAD without a note: ``image_notes`` has a better one.

    A JPEG is decoded strictly at 1/8 size first; where that succeeds Pillow's decoder does too, as both are
    libjpeg. Pillow itself is asked only where it fails, or where simplejpeg is not installed.
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


def _decode_jpeg(data: bytes, header: ImageHeader, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    pixels = header.width * header.height
    big = 0 < max_image_pixels < pixels
    if header.progressive and keeps_busy(data, pixels):
        return BIG_BAD if big else BAD, ("image.undecodable",)
    decode = load_simplejpeg()
    if decode is None or pixels > BOMB_PIXELS:
        return _decode_with_pillow(data, max_image_pixels)
    tables = read_tables(data)
    if not (tables is not None and tables.plain) and not opens(data):
        return BIG_BAD if big else BAD, ("image.undecodable",)
    warning, damaged, uniform = decode_jpeg_strictly(decode, data, header.mode, tables)
    if not warning and not uniform:
        return BIG if big else OK, _NOTES["damaged"] if damaged else ()
    # One grey may still be many colours: only a full decode tells. After a warning, Pillow's verdict is open.
    status, notes = _decode_with_pillow(data, max_image_pixels)
    if warning and status in (OK, BIG):
        notes = _NOTES.get(judge_warning(warning, decode, data, header.mode), ()) + notes
    return status, notes


@cache
def _formats() -> tuple[str, ...]:
    """Return Pillow's formats, the usual ones first."""
    from PIL import Image

    Image.init()
    usual = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
    return usual + tuple(name for name in Image.ID if name not in usual and name not in _NEVER_OPENED)


def opens(data: bytes) -> bool:
    """Return whether Pillow opens an image, which reads no pixels."""
    from PIL import Image

    with quiet():
        try:
            with Image.open(BytesIO(data), formats=_formats()):
                return True
        except Exception:  # noqa: BLE001 - Pillow's plugins raise whatever their parsers raise
            return False


def _decode_with_pillow(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    from PIL import Image

    big = False
    with quiet(), silent_stderr() if data.startswith(_TIFF) else nullcontext():
        try:
            with Image.open(BytesIO(data), formats=_formats()) as image:
                big = 0 < max_image_pixels < image.width * image.height
                image.load()
                _convert(image)
                notes = ("image.uniform",) if _is_uniform(image) else ()
        except Image.DecompressionBombError:
            return BOMB, ()
        except Exception as exception:  # noqa: BLE001 - Pillow's plugins raise whatever their parsers raise
            cut = "truncated" in str(exception).lower()
            return BIG_BAD if big else BAD, ("image.undecodable", "image.cut") if cut else ("image.undecodable",)
    return BIG if big else OK, notes


def _convert(image: "Image") -> None:
    """Raise what ``convert("RGB")`` would raise: that hangs on mode and palette, so one pixel is enough."""
    if image.mode != "RGB":
        image.crop((0, 0, 1, 1)).convert("RGB")


def _is_uniform(image: "Image") -> bool:
    """Return whether all pixels have one colour; transparency is left out, as in ``convert("RGB")``."""
    colours = image.convert(image.mode[:-1]) if image.mode in ("RGBA", "LA", "PA") and _alike(image) else image
    if not _alike(colours):
        return False
    extremes = colours.getextrema()
    bands = (extremes,) if len(colours.getbands()) == 1 else extremes
    return all(low == high for low, high in bands)  # type: ignore[misc]


def _alike(image: "Image") -> bool:
    """Return whether a few pixels have one colour: rules out nearly all images at no cost."""
    colours = len(image.getbands())
    colours -= image.mode in ("RGBA", "LA", "PA")
    seen = set()
    for place in _PROBES:
        pixel = image.getpixel((int(place * image.width), int(place * image.height)))
        seen.add(pixel[:colours] if isinstance(pixel, tuple) else pixel)
    return len(seen) == 1
