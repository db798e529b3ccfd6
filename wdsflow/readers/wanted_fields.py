"""Which fields a reader decodes, and why a sample does not train."""

import io
import json
import re
from collections.abc import Callable, Mapping

from wdsflow.scan.content.other import EXTENSIONS
from wdsflow.scan.evidence import BAD, BIG_BAD, BOMB, EMPTY, NOT_UTF8, Part
from wdsflow.shards.shard_names import IMAGE_FIELDS

IMAGES, TEXTS = EXTENSIONS["image"], EXTENSIONS["text"]
OTHERS = frozenset().union(
    *(EXTENSIONS[kind] for kind in ("integer", "json", "tenbin", "msgpack", "npy", "npz", "cbor"))
)
PICKLES = frozenset({"pyd", "pickle", "pth"})  # webdataset 0.2 leaves pkl as bytes

IMAGE_TROUBLE = frozenset({BAD, EMPTY, BOMB, BIG_BAD})  # Pillow raises for them
TEXT_TROUBLE = frozenset({BAD, NOT_UTF8})
OTHER_TROUBLE = frozenset({BAD, EMPTY})  # no decoder of numbers, json or arrays takes nothing for something

_TO_LAST_DOT = re.compile(r".*[.]")  # "." matches no newline, in webdataset's pattern as in this one


def extension_of(suffix: str) -> str:
    """Return the part of a field name that webdataset chooses a decoder by; one ``.gz`` is taken off first.

    >>> extension_of("seg.png"), extension_of("txt.gz"), extension_of("jpg")
    ('png', 'txt', 'jpg')
    """
    key = "." + suffix
    return _TO_LAST_DOT.sub("", key.removesuffix(".gz"))


def refused(part: Part, decoded: frozenset[str]) -> bool:
    """Return whether decoding one field raises. ``decoded`` has the extensions that the reader decodes."""
    suffix = part.suffix
    extension = extension_of(suffix)
    if suffix == "gz" or suffix.endswith(".gz"):
        # Gzip itself raises for any field. Its contents were judged by the decoder of the name without .gz.
        return part.status in TEXT_TROUBLE or part.status in IMAGE_TROUBLE - {EMPTY}
    if extension not in decoded:
        return False
    if extension in TEXTS:
        return part.status in TEXT_TROUBLE
    return part.status in (IMAGE_TROUBLE if extension in IMAGES else OTHER_TROUBLE)


def reason_for(part: Part, image: Part | None, caption: str) -> str:
    """Return the slug for a field that does not decode: the image, the caption, or another one."""
    if part == image:
        return "too-large" if part.status in (BOMB, BIG_BAD) else "bad-image"
    return "bad-caption" if part.suffix == caption else "bad-field"


CAPTION = "txt"
_LARGEST = {CAPTION: 16 << 20, "json": 16 << 20}
_LARGEST_IMAGE = 1 << 30


def trouble(sizes: Mapping[str, int], read: Callable[[str], bytes]) -> str:
    """Return why OpenCLIP 3.3 would not train on a sample; "" if it would.

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
