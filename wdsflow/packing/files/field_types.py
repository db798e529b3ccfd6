"""Field names by the first bytes of files, and whether a name is an image, video or audio."""

from wdsflow.images.image_header import UNREADABLE, read_header
from wdsflow.media import HEAD, media_format, media_kind, promised_format

# Bytes that are enough for the header of an image.
_FIRST = 1 << 16
_USUAL = {"jpeg": "jpg", "tiff": "tif", "matroska": "mkv", "mpeg": "mpg"}
_STARTS = ((b"\xff\xd8\xff", "jpg"), (b"\x89PNG\r\n\x1a\n", "png"), (b"GIF8", "gif"))
_VIDEOS = frozenset(("mp4", "matroska", "avi", "ogg", "flv", "mpeg"))
_PICTURES = frozenset("jpg jpeg png webp gif bmp tif tiff avif jp2 ppm pgm".split())


def field_by_type(first: bytes, extension: str) -> str:
    """Return the name of the field for a file by its first bytes, "" if it is no image or video.

    >>> field_by_type(bytes([255, 216, 255, 224]), "png"), field_by_type(b"<html>", "jpg")
    ('jpg', '')
    """
    for start, name in _STARTS:
        if first.startswith(start):
            return name
    if first[:4] == b"RIFF" and first[8:12] == b"WEBP":
        return "webp"
    image = read_header(first[:_FIRST])
    if image is not None and image.format not in UNREADABLE:
        return _USUAL.get(image.format, image.format)
    kind = media_format(first[:HEAD])
    if kind not in _VIDEOS:
        return ""
    if promised_format(extension) == kind:
        return extension
    # Most files of Ogg are audio.
    return "" if kind == "ogg" else _USUAL.get(kind, kind)


def is_media(name: str) -> bool:
    """Return whether a field is an image, a video or audio by its name.

    >>> is_media("jpg"), is_media("seg.png"), is_media("mp4"), is_media("txt")
    (True, True, True, False)
    """
    return name.rpartition(".")[2] in _PICTURES or bool(media_kind(name))
