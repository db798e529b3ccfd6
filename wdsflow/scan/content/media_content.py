"""Audio and video fields: whether they match their names and whether they are truncated."""

from wdsflow.media import (
    HEAD,
    Read,
    format_title,
    is_cut,
    least_size,
    media_format,
    promised_format,
    tag_length,
)

# Pictures in the container of MP4.
_ANIMATED = frozenset((b"heic", b"heix", b"mif1", b"avif", b"avis"))
# Bytes: writers of WAV forget the padding, or count the 8 bytes of the chunk's own header.
_SLOPPY = 12


def media_notes_and_format(suffix: str, size: int, read: Read) -> tuple[tuple[str, ...], str]:
    """Return the tallies that an audio or video member adds to, and its format as found.

    The format is "" if none is recognized.

    ``suffix`` is the field name in lower case; ``read`` returns bytes by offset and number, none if
    it cannot.
    """
    if not size:
        return ("media.empty",), ""
    head = read(0, min(size, HEAD))
    if not head:
        return (), ""
    tagged = tag_length(head)
    if tagged >= size:
        return ("media.cut",), ""
    if tagged:
        head = read(tagged, min(size - tagged, HEAD))
        if not head:
            return (), ""
    actual = media_format(head)
    is_picture = actual == "mp4" and head[4:8] == b"ftyp" and head[8:12] in _ANIMATED
    if not actual or is_picture:
        # A frame of MP3 may begin anywhere: a decoder searches for it.
        return ((), "") if tagged else (("media.not-media",), "")
    notes: tuple[str, ...] = ()
    if actual != promised_format(suffix):
        notes += ("media.wrong-format",)
    slack = _SLOPPY if actual == "wav" else 0
    is_short = least_size(head) > size - tagged + slack
    if is_short or (actual == "mp4" and not tagged and is_cut(size, read)):
        notes += ("media.cut",)
    return notes, format_title(actual)
