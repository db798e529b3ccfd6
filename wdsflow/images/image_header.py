"""What an image is by its first bytes: format, size, mode and traits, without decoding.

JPEG, PNG, GIF and WebP are read here, in a tenth of Pillow's time or less; all other formats are left to Pillow.
"""

from .header import ImageHeader
from .jpeg import read_jpeg
from .other_headers import UNREADABLE, read_other
from .plain_headers import read_gif, read_png, read_webp

__all__ = ["UNREADABLE", "ImageHeader", "read_header"]

_JPEG, _PNG, _GIF = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a")


def read_header(data: bytes) -> ImageHeader | None:
    """Return what the first bytes of a file tell of the image, None if they are no image.

    4 KiB do for nearly all files. Where EXIF, a colour profile or a comment is larger, ``needs`` says with how many
    bytes to call again; that goes up to 1 MiB. Width, height, mode, progressive and orientation are Pillow's, but for
    HEIC and AVIF. Never raises.
    """
    if data.startswith(_JPEG):
        return read_jpeg(data)
    if data.startswith(_PNG):
        return read_png(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return read_webp(data)
    if data.startswith(_GIF):
        return read_gif(data)
    return read_other(data) if data else None
