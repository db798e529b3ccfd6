"""The fields of a sample that are files: named by their bytes, checked, and numbered."""

from typing import TypeAlias

from wdsflow.media import promised_format
from wdsflow.shards.caption_field import parse_json

from ..files.field_types import field_by_type, is_media
from ..files.media_files import FileRef, Opened, path_of
from ..rows.caption_cells import caption_bytes
from ..unusable import NOT_AN_IMAGE, NOT_JSON, UNREADABLE, Unusable

# The names of the fields of a sample that are files, and the files.
FileFields: TypeAlias = list[tuple[str, Opened]]
# Bytes of a text or json next to an image.
_MOST_TEXT = 16 << 20


def named_field(name: str, ref: FileRef, opened: Opened) -> tuple[str, Opened]:
    """Return the name of a field, and its file. Raises Unusable.

    ``name``: that of the field; "" to name it by its bytes, which then are an image or a video. A
    text is read to its end.
    """
    if not name:
        return _media_type(ref, opened), opened
    if is_media(name):
        # Raises Unusable if it is none.
        _media_type(ref, opened)
    if name not in ("txt", "json"):
        return name, opened
    if opened.size > _MOST_TEXT:
        raise Unusable(
            UNREADABLE, f"it has {opened.size:,} bytes; at most {_MOST_TEXT:,} of a text are read"
        )
    data = b"".join([opened.first, *(opened.rest or ())])
    _check_text(name, data)
    return name, Opened(len(data), data)


def numbered_fields(contents: FileFields) -> FileFields:
    """Number the fields of several images, and of several videos: ``0.jpg``, ``1.jpg``."""
    videos = [field for field in contents if promised_format(field[0])]
    images = [field for field in contents if not promised_format(field[0])]
    numbered: FileFields = []
    next_video = 0
    next_image = 0
    for name, opened in contents:
        if promised_format(name):
            prefix = f"{next_video}." if len(videos) > 1 else ""
            next_video += 1
        else:
            prefix = f"{next_image}." if len(images) > 1 else ""
            next_image += 1
        numbered.append((f"{prefix}{name}", opened))
    return numbered


def _check_text(name: str, data: bytes) -> None:
    """Raise Unusable if a text next to an image is no caption, or no JSON."""
    if name == "txt":
        caption_bytes(data.decode("utf-8", "surrogateescape"), "")
        return
    try:
        parse_json(data)
    except ValueError as error:
        raise Unusable(NOT_JSON, str(error)) from None


def _media_type(ref: FileRef, opened: Opened) -> str:
    """Return the name of the field for an image or a video. Raises Unusable."""
    extension = path_of(ref).rpartition(".")[2].lower()
    name = field_by_type(opened.first, extension)
    if name:
        return name
    detail = f"it begins with {opened.first[:16]!r}" if opened.size else "it is empty"
    raise Unusable(NOT_AN_IMAGE, detail)
