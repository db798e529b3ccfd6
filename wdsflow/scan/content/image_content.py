"""Whether readers decode an image, and warnings of decoders."""

from contextlib import nullcontext
from functools import partial
from struct import Struct, error
from typing import TYPE_CHECKING
from zlib import crc32

from wdsflow.images.header import MAX_HEADER
from wdsflow.images.image_header import UNREADABLE, ImageHeader, read_header
from wdsflow.images.jpeg import decodes_too_long, load_simplejpeg
from wdsflow.images.pillow import BOMB_PIXELS, open_image, quiet_pillow, silent_stderr
from wdsflow.scan.content.jpeg_damage import Strict, decode_jpeg_strictly, judge_warning
from wdsflow.scan.content.jpeg_tables import read_tables
from wdsflow.scan.statuses import BAD, BIG, BIG_BAD, BOMB, OK

if TYPE_CHECKING:
    from PIL.Image import Image

_chunk = Struct(">I4s").unpack_from

_NOTES: dict[Strict, tuple[str, ...]] = {
    "damaged": ("image.damaged",),
    "cut": ("image.damaged", "image.cut"),
}
# Positions of pixels that are compared, as shares of width and height.
_PROBES = (0.0, 0.13, 0.31, 0.5, 0.67, 0.83, 0.99)
_TIFF = (b"II", b"MM")


def decode_image(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    """Return ``(status, notes)`` of an image decoded in full.

    Status is the verdict of Pillow's ``open``, ``load`` and ``convert("RGB")`` under its default
    settings: OK or BAD; BOMB for more than twice its limit of pixels; BIG or BIG_BAD for more than
    ``max_image_pixels``, unless that is 0.

    Bytes that are no image at all get BAD without a note: ``image_notes`` has a better one.

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
    # The statuses say, too, whether the image has more pixels than the reader allows.
    ok, bad = (BIG, BIG_BAD) if big else (OK, BAD)
    if header.progressive and decodes_too_long(data, pixels):
        return bad, ("image.undecodable",)
    decode_simple = load_simplejpeg()
    if decode_simple is None or pixels > BOMB_PIXELS:
        return _decode_with_pillow(data, max_image_pixels)
    tables = read_tables(data)
    is_plain = tables is not None and tables.plain
    if not is_plain and not opens(data):
        return bad, ("image.undecodable",)
    colorspace = "CMYK" if header.mode == "CMYK" else "GRAY"
    decode = partial(decode_simple, colorspace=colorspace, min_height=1, min_width=1)
    warning, damaged, uniform = decode_jpeg_strictly(decode, data, tables)
    if not warning and not uniform:
        return ok, _NOTES["damaged"] if damaged else ()
    # One grey may still be many colours: only a full decode shows. After a warning, Pillow's
    # verdict is open.
    status, notes = _decode_with_pillow(data, max_image_pixels)
    if warning and status in (OK, BIG):
        notes = _NOTES.get(judge_warning(warning, decode, data), ()) + notes
    return status, notes


def opens(data: bytes) -> bool:
    """Return whether Pillow opens an image, which reads no pixels."""
    with quiet_pillow():
        try:
            with open_image(data):
                return True
        except Exception:  # noqa: BLE001 - Pillow's plugins raise whatever their parsers raise
            return False


def _decode_with_pillow(data: bytes, max_image_pixels: int) -> tuple[str, tuple[str, ...]]:
    from PIL import Image

    big = False
    # libtiff writes its warnings there.
    silence = silent_stderr() if data.startswith(_TIFF) else nullcontext()
    with quiet_pillow(), silence:
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
            causes: tuple[str, ...] = ("image.undecodable",)
            if "truncated" in str(exception).lower():
                causes = ("image.undecodable", "image.cut")
            return BIG_BAD if big else BAD, causes
    return BIG if big else OK, notes


def _is_uniform(image: "Image") -> bool:
    """Return whether all pixels have one colour, ignoring transparency.

    Transparency is dropped as in ``convert("RGB")``.
    """
    with_alpha = image.mode in ("RGBA", "LA", "PA")
    colours = len(image.getbands()) - with_alpha
    probed = set()
    # A few pixels rule out nearly all images at no cost.
    for share in _PROBES:
        pixel = image.getpixel((int(share * image.width), int(share * image.height)))
        probed.add(pixel[:colours] if isinstance(pixel, tuple) else pixel)
    if len(probed) > 1:
        return False
    if with_alpha:
        image = image.convert(image.mode[:-1])
    extremes = image.getextrema()
    # Of one band, a pair; of several, a pair for each.
    bands = extremes if isinstance(extremes[0], tuple) else (extremes,)
    return all(low == high for low, high in bands)


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
