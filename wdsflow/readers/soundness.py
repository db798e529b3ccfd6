"""Whether OpenCLIP would train on a sample."""

import io
import json
from collections.abc import Callable, Mapping

from wdsflow.shards.field_names import IMAGE_FIELDS

CAPTION = "txt"
_LARGEST = {CAPTION: 16 << 20, "json": 16 << 20}
_LARGEST_IMAGE = 1 << 30


def trouble(sizes: Mapping[str, int], read: Callable[[str], bytes]) -> str:
    """Say why OpenCLIP 3.3 would not train on a sample; empty if it would.

    Args:
        sizes: bytes of each field.
        read: returns the contents of a field.

    Its image must decode, its caption must be text with something in it, and json next to them must parse: OpenCLIP
    decodes it with the rest. Fields of other kinds are not looked at.
    """
    images = [name for name in IMAGE_FIELDS if name in sizes]
    if not images:
        return "bad: no image"
    if CAPTION not in sizes:
        return "bad: no caption"
    for name in (*images, CAPTION, "json"):
        if sizes.get(name, 0) > _LARGEST.get(name, _LARGEST_IMAGE):
            return f"bad: {name} is huge"
    try:
        text = read(CAPTION).decode()
    except UnicodeDecodeError:
        return "bad: caption is not UTF-8"
    if not text.strip():
        return "bad: caption is empty"
    if "json" in sizes and not _parses(read("json")):
        return "bad: json does not parse"
    for name in images:
        if reason := _image_trouble(read(name)):
            return reason
    return ""


def _parses(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _image_trouble(data: bytes) -> str:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", (1, 1))  # the smallest scale reads all the data in a part of the time
            image.load()
    except UnidentifiedImageError:
        return "bad: image is not an image"
    except Image.DecompressionBombError:
        return "bad: image has too many pixels"
    except Image.DecompressionBombWarning:  # where warnings are errors; OpenCLIP would decode it
        return ""
    except Exception:  # noqa: BLE001 - Pillow's readers raise all kinds, and OpenCLIP drops the sample for any
        return "bad: image cannot be decoded"
    return ""
