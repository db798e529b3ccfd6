"""How long an audio or video file says that it is, where its first bytes tell: a way to know one that was cut."""

_SEGMENT = b"\x18\x53\x80\x67"
_UNKNOWN = 0x7FFF0000  # bytes: SoX and FFmpeg write 0x7FFFFFFF, 0xFFFFFFFF or somewhat less into a pipe
HEAD = 256  # bytes that are enough to look at


def least_size(head: bytes) -> int:
    """Return the size in bytes that a file has to have by its own header, 0 if that does not tell.

    Matroska and WebM: the end of the segment. AVI: the end of the first RIFF chunk. WAV: the same, unless it was
    written into a pipe, where encoders do not know the length. Others tell by their index.

    >>> least_size(b"RIFF" + (1000).to_bytes(4, "little") + b"AVI LIST")
    1008
    """
    if head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"WAVE"):
        length = int.from_bytes(head[4:8], "little")
        return 0 if head[8:12] == b"WAVE" and length >= _UNKNOWN else length + 8
    if head[:4] != b"\x1aE\xdf\xa3":
        return 0
    header = _number(head, 4)
    if header is None:
        return 0
    at = header[0] + header[1]
    if head[at : at + 4] != _SEGMENT:
        return 0
    segment = _number(head, at + 4)
    return sum(segment) if segment is not None else 0


def _number(data: bytes, at: int) -> tuple[int, int] | None:
    """Return an EBML number and where it ends; None if it is not there, or stands for an unknown size."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    if not first or at + length > len(data):
        return None
    bits = 7 * length
    value = int.from_bytes(data[at : at + length], "big") & (1 << bits) - 1
    return None if value == (1 << bits) - 1 else (value, at + length)
