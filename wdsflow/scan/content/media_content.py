"""Judgements on audio and video by their first bytes: whether they are what their names say, and complete."""

from wdsflow.media.least_size import least_size
from wdsflow.media.media_format import HEAD, format_title, media_format, promised_format, tag_length
from wdsflow.media.mp4_boxes import Read, is_cut

_ANIMATED = frozenset((b"heic", b"heix", b"mif1", b"avif", b"avis"))  # pictures in the container of MP4

_SLOPPY = 12  # bytes: writers of WAV forget the padding, or count the 8 bytes of the chunk's own header


def media_notes(suffix: str, size: int, read: Read) -> tuple[tuple[str, ...], str]:
    """Return the names of the tallies that an audio or video member adds to, and what was found instead.

    Args:
        suffix: field name in lower case.
        size: of the member, in bytes.
        read: gives bytes of it by offset and number.
    """
    if not size:
        return ("media.empty",), ""
    head = read(0, min(size, HEAD))
    if not head:
        return (), ""  # the source cannot read it
    tagged = tag_length(head)
    if tagged >= size:
        return ("media.cut",), ""
    if tagged:
        head = read(tagged, min(size - tagged, HEAD))
        if not head:
            return (), ""  # the source cannot read so far inside
    found, promised = media_format(head), promised_format(suffix)
    if found == "mp4" and head[4:8] == b"ftyp" and head[8:12] in _ANIMATED:
        found = ""
    if not found:
        # A frame of MP3 may begin anywhere: a decoder searches for it.
        return ((), "") if tagged else (("media.not-media",), "")
    notes: tuple[str, ...] = ("media.wrong-format",) if found != promised else ()
    slack = _SLOPPY if found == "wav" else 0
    if least_size(head) > size - tagged + slack or (found == "mp4" and not tagged and is_cut(size, read)):
        notes += ("media.cut",)
    return notes, format_title(found)
