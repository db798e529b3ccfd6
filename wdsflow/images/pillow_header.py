"""Headers of images that Pillow reads, by its plugins."""

from io import BytesIO
from typing import IO, Any

from .header import ImageHeader, more_bytes
from .pillow import quiet_pillow

# Formats whose magic bytes are proof, also where Pillow
# does not open the rest, and our names for them.
_CERTAIN = {"BMP": "bmp", "TIFF": "tiff", "JPEG2000": "jp2", "ICO": "ico", "ICNS": "icns"}
# To open an icon is to decode it.
_MORE_HELPS = frozenset(("BMP", "TIFF", "JPEG2000"))
# Bytes: the header that OS/2 wrote, without compression.
_SHORT_BMP = 12
# Bytes: the directory of a TIFF is often at its end, which is not read for this.
_MOST_MORE = 1 << 16
# Tags of TIFF.
_BITS_PER_SAMPLE = 258
_ORIENTATION = 274


def pillow_header(data: bytes) -> ImageHeader | None:
    """Let Pillow's plugins look at the bytes, without its limit on pixels."""
    from PIL import Image

    with quiet_pillow():
        Image.init()
        for name in Image.ID:
            factory, accept = Image.OPEN[name]
            accepted: bool | str = False
            head = _Head(data)
            try:
                accepted = not accept or accept(data[:16])
                # A text is a warning: the library of a format is missing.
                if accepted and not isinstance(accepted, str):
                    with factory(head, "") as image:
                        return _header_of(image)
            except Exception:  # noqa: BLE001 - a plugin may fail in any way on bytes that are not its own
                if accepted is True and name in _CERTAIN:
                    return _header_without_opening(name, head.required)
    return None


def tiff_header(file: IO[bytes]) -> ImageHeader:
    """Return the header of a TIFF, anywhere in the file. Raises the errors of Pillow's plugin."""
    from PIL import TiffImagePlugin

    with quiet_pillow(), TiffImagePlugin.TiffImageFile(file, "") as image:
        return _header_of(image)


def _header_of(image: Any) -> ImageHeader:
    """Return the header of an image that Pillow has opened without decoding it."""
    name: str = _CERTAIN.get(image.format, image.format.lower())
    mode: str = image.mode
    bits = 8
    orientation = 1
    length = 0
    if name == "tiff":
        bits = max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,)))
        value = image.tag_v2.get(_ORIENTATION)
        if isinstance(value, int):
            orientation = value
    elif name == "bmp":
        length = _bmp_length(image)
    width, height = image.size
    alpha = mode.endswith(("A", "a"))
    return ImageHeader(name, width, height, mode, bits, orientation, alpha=alpha, length=length)


def _bmp_length(image: Any) -> int:
    """Return how many bytes a BMP without compression has at least; 0 for others."""
    coder, _box, start, (_mode, stride, *_) = image.tile[0]
    if coder != "raw":
        return 0
    head = image.fp.getvalue()
    bits_per_pixel = head[24 if head[14] == _SHORT_BMP else 28]
    # The last row may have no padding.
    last_row = (image.width * bits_per_pixel + 7) // 8
    return int(start + stride * (image.height - 1) + last_row)


class _Head(BytesIO):
    """The first bytes of a file.

    ``required``: how many bytes the first read that goes beyond them needs; 0 if no read did.
    """

    required = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size is not None and len(data) < size and not self.required:
            self.required = self.tell() + size - len(data)
        return data


def _header_without_opening(name: str, required: int) -> ImageHeader:
    """Return the header of an image that Pillow opens only with more bytes, or not at all."""
    if not required or name not in _MORE_HELPS:
        return ImageHeader(_CERTAIN[name], 0, 0, "")
    needs = more_bytes(required) if required <= _MOST_MORE else 1
    return ImageHeader(_CERTAIN[name], 0, 0, "", needs=needs, length=required)
