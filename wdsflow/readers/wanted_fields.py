"""Which fields a reader decodes, and why a sample does not train."""

import json
import re
from collections.abc import Callable, Mapping

from wdsflow.scan.content.field_kinds import EXTENSIONS
from wdsflow.scan.content.image_content import decode_image
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import (
    BAD,
    BIG_BAD,
    BOMB,
    CUT,
    EMPTY,
    MARKUP,
    NO_LIBRARY,
    NOT_IMAGE,
    NOT_UTF8,
    NOT_ZIPPED,
    OK,
    PARTLY,
)
from wdsflow.shards.shard_names import IMAGE_FIELDS

IMAGES, TEXTS = EXTENSIONS["image"], EXTENSIONS["text"]
OTHERS = frozenset().union(
    *(EXTENSIONS[kind] for kind in ("integer", "json", "tenbin", "msgpack", "npy", "npz", "cbor"))
)
# webdataset 0.2 leaves pkl as bytes.
PICKLES = frozenset({"pyd", "pickle", "pth"})

# Pillow raises for them.
IMAGE_TROUBLE = frozenset({BAD, CUT, NOT_IMAGE, MARKUP, EMPTY, BOMB, BIG_BAD})
TEXT_TROUBLE = frozenset({BAD, NOT_UTF8})
# No decoder of numbers, json or arrays takes nothing for something.
OTHER_TROUBLE = frozenset({BAD, NO_LIBRARY, EMPTY})

# "." matches no newline, in webdataset's pattern as in this one.
_TO_LAST_DOT = re.compile(r".*[.]")

CAPTION = "txt"
_LARGEST = {CAPTION: 16 << 20, "json": 16 << 20}
_LARGEST_IMAGE = 1 << 30


def extension_of(suffix: str) -> str:
    """Return the part of a field name by which webdataset chooses a decoder.

    One ``.gz`` is removed first.

    >>> extension_of("seg.png"), extension_of("txt.gz"), extension_of("jpg")
    ('png', 'txt', 'jpg')
    """
    key = "." + suffix
    return _TO_LAST_DOT.sub("", key.removesuffix(".gz"))


def decoding_raises(part: Part, decoded: frozenset[str], *, loads_arrays: bool = False) -> bool:
    """Return whether decoding one field raises.

    Args:
        part: the field.
        decoded: the extensions that the reader decodes.
        loads_arrays: whether it loads the arrays of an npz, or only opens the file.
    """
    suffix = part.suffix
    extension = extension_of(suffix)
    if suffix == "gz" or suffix.endswith(".gz"):
        # For any field.
        if part.status == NOT_ZIPPED:
            return True
        if extension not in decoded:
            return False
        # Its contents were judged by the decoder of the name
        # without .gz; an empty text is none of its faults.
        trouble = TEXT_TROUBLE | IMAGE_TROUBLE | OTHER_TROUBLE
        return part.status in (trouble - {EMPTY}) or (loads_arrays and part.status == PARTLY)
    if extension not in decoded:
        return False
    if part.status == PARTLY:
        return loads_arrays
    if extension in TEXTS:
        return part.status in TEXT_TROUBLE
    return part.status in (IMAGE_TROUBLE if extension in IMAGES else OTHER_TROUBLE)


def reason_for(part: Part, image: Part | None, caption: str) -> str:
    """Return the slug for a field that does not decode: the image, the caption, or another one."""
    if part == image:
        return "too-large" if part.status == BOMB else "bad-image"
    return "bad-caption" if part.suffix == caption else "bad-field"


def why_not_trainable(sizes: Mapping[str, int], read: Callable[[str], bytes]) -> str:
    """Return why OpenCLIP 3.3 would not train on a sample; "" if it would.

    Args:
        sizes: bytes of each field.
        read: returns the contents of a field.

    Its image must decode, its caption must be text with something in it, and json next to them must
    parse: OpenCLIP decodes it with the rest. Fields of other kinds are not looked at.
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
    status, notes = decode_image(data, 0)
    if status == OK:
        return ""
    if status == BOMB:
        return "bad: image has too many pixels"
    return "bad: image cannot be decoded" if notes else "bad: image is not an image"
