"""Whether an image has its end."""

from wdsflow.images.image_header import ImageHeader
from wdsflow.images.jpeg import first_scan

_END_MARKS = {"jpeg": b"\xff\xd9", "png": b"IEND\xaeB`\x82", "gif": b"\x3b"}
# Samsung's.
_TRAILERS = (b"SEFT",)


def ends_early(tail: bytes, header: ImageHeader) -> bool:
    """Return whether the end mark of a JPEG, PNG or GIF seems to be missing, by its last bytes.

    A hint, not a proof: appended bytes hide an end mark, which ``has_end`` finds. Zeros, line ends,
    and a trailer of text or of a phone are skipped.
    """
    mark = _END_MARKS.get(header.format)
    if mark is None or mark in tail:
        return False
    rest = tail.rstrip(b"\0\r\n")
    if not rest or rest.endswith(_TRAILERS):
        return False
    is_text = len(rest) >= 8 and rest.isascii()
    return not is_text


def has_end(data: bytes, header: ImageHeader) -> bool:
    """Return whether a complete JPEG or PNG contains its end mark.

    Bytes may have been appended after the end mark.

    That of a GIF is a single byte: any may be one.
    """
    # A JPEG's preview has its own end mark, in a segment before the picture's first scan.
    start = first_scan(data) if header.format == "jpeg" else 0
    return start is not None and data.find(_END_MARKS[header.format], start) >= 0
