"""The contents of single fields: whether readers decode them, and the format of images."""

from wdsflow.images.image_header import read_header
from wdsflow.readers.wanted_fields import IMAGES, OTHERS, PICKLES, TEXTS, decoding_raises
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.image_content import decode_image
from wdsflow.scan.content.other import decode_other
from wdsflow.scan.content.text_content import decode_json, decode_text
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import EMPTY

# Fields of more bytes are taken for ones that decode, as the scan takes them.
MOST_DECODED = 256 << 20
_DECODED = IMAGES | TEXTS | OTHERS | PICKLES
# Formats with unmistakable first bytes, and the field in which readers look for them. Readers open
# images by their contents, and jpg is the name that all of them know.
_FIELDS = {
    "jpeg": "jpg",
    "png": "png",
    "webp": "webp",
    "gif": "jpg",
    "bmp": "jpg",
    "tiff": "jpg",
    "jpeg2000": "jpg",
    "avif": "jpg",
}


def decodes(name: str, data: bytes) -> bool:
    """Return whether OpenCLIP 3.3 decodes this content as a field of this name.

    It decodes all fields of a sample.

    >>> decodes("json", b"{'a': 1}"), decodes("cls", b"7"), decodes("notes", b"?")
    (False, True, True)
    """
    return not is_refused(Part(name, _status(name, data)))


def is_refused(part: Part) -> bool:
    """Return whether OpenCLIP 3.3 does not decode a field."""
    return decoding_raises(part, _DECODED)


def _status(name: str, data: bytes) -> str:
    if not data:
        return EMPTY
    kind = kind_of(name)
    if kind == "image":
        return decode_image(data, 0)[0]
    if kind == "text":
        return decode_text(data)[0]
    if kind == "json":
        return decode_json(data, ())[0]
    return decode_other(kind, name, data)[0]


def image_field(head: bytes) -> str:
    r"""Return the field name for an image by its first bytes, "" if Pillow cannot open it.

    >>> image_field(b"\xff\xd8\xff\xe0"), image_field(b"a text")
    ('jpg', '')
    """
    header = read_header(head)
    # Without a mode Pillow cannot open it here.
    if header is None or not (header.mode or header.needs):
        return ""
    return _FIELDS.get(header.format, "")
