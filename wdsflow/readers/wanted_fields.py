"""Which fields a reader decodes, and which contents its decoder refuses."""

import re

from wdsflow.scan.content.field_kinds import EXTENSIONS
from wdsflow.scan.evidence import BAD, BIG_BAD, BOMB, EMPTY, NOT_UTF8, Part

IMAGES, TEXTS = EXTENSIONS["image"], EXTENSIONS["text"]
OTHERS = frozenset().union(
    *(EXTENSIONS[kind] for kind in ("integer", "json", "tenbin", "msgpack", "npy", "npz", "cbor"))
)
PICKLES = frozenset({"pyd", "pickle", "pth"})  # webdataset 0.2 leaves pkl as bytes

IMAGE_TROUBLE = frozenset({BAD, EMPTY, BOMB, BIG_BAD})  # what Pillow raises for
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
        # Gzip itself raises for any field. What it holds was judged by the decoder of the name without .gz.
        return part.status in TEXT_TROUBLE or part.status in IMAGE_TROUBLE - {EMPTY}
    if extension not in decoded:
        return False
    if extension in TEXTS:
        return part.status in TEXT_TROUBLE
    return part.status in (IMAGE_TROUBLE if extension in IMAGES else OTHER_TROUBLE)


def reason_for(part: Part, image: Part | None, caption: str) -> str:
    """Return the slug for a field that does not decode: is it the image, the caption, or one that nobody asked for?"""
    if part == image:
        return "too-large" if part.status in (BOMB, BIG_BAD) else "bad-image"
    return "bad-caption" if part.suffix == caption else "bad-field"
