"""Audio and video by their bytes: the format of a file, and whether it is complete."""

from collections.abc import Callable

# Boxes: a file in fragments has many.
_MOST_BOXES = 64

# Offset within the file, number of bytes.
Read = Callable[[int, int], bytes]

# Bytes that are enough to look at.
HEAD = 4096

# Extension -> format.
_OF_AUDIO = {
    "wav": "wav",
    "flac": "flac",
    "mp3": "mp3",
    "ogg": "ogg",
    "oga": "ogg",
    "opus": "ogg",
    "m4a": "mp4",
    "aac": "aac",
    "aif": "aiff",
    "aiff": "aiff",
}
_OF_VIDEO = {
    "mp4": "mp4",
    "m4v": "mp4",
    "mov": "mp4",
    "webm": "matroska",
    "mkv": "matroska",
    "avi": "avi",
    "ogv": "ogg",
    "flv": "flv",
}
_PROMISED = _OF_AUDIO | _OF_VIDEO
_TITLES = {
    "mp4": "MP4 or MOV",
    "matroska": "Matroska or WebM",
    "ogg": "Ogg",
    "mpeg": "MPEG",
    "asf": "WMA or WMV",
}

# Types of the first box of an MP4, MOV or M4A. Old MOV files have no ftyp.
_BOXES = frozenset(
    (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"sidx")
)
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"\x1aE\xdf\xa3", "matroska"),
    (b"FLV\x01", "flv"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf"),
    (b"\0\0\x01\xba", "mpeg"),
    (b"\0\0\x01\xb3", "mpeg"),
    (b"ADIF", "aac"),
)
_RIFF = (b"RIFF", b"RF64", b"BW64")
# Bytes of a packet of an MPEG transport stream.
_PACKET = 188

_SEGMENT = b"\x18\x53\x80\x67"
# Bytes that ``least_size`` needs.
SIZE_HEAD = 256
# Bytes: SoX and FFmpeg write 0x7FFFFFFF, 0xFFFFFFFF or somewhat less into a pipe.
_UNKNOWN = 0x7FFF0000


def is_cut(size: int, read: Read) -> bool:
    """Return whether the file ends inside a box, or without the index (``moov``) that players need.

    Reads 16 bytes of each box, and never goes back. False if that is not enough to know.
    """
    at, index = 0, False
    for _ in range(_MOST_BOXES):
        if at >= size:
            return not index
        head = read(at, 16)
        if len(head) < 8:
            # Or the source cannot read there.
            return size - at < 8 and not index
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if not (name.isalnum() and name.isascii()) and name[:1] != b"\xa9" and name != b"\0\0\0\0":
            # Something other than a box follows.
            return False
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        elif not length:
            # The last box: it extends to the end.
            return not index and name != b"moov"
        if length < 8:
            return False
        index = index or name in (b"moov", b"moof")
        at += length
        if at > size:
            return True
    return False


def media_kind(suffix: str) -> str:
    """Return "audio" or "video" by the extension of a field name, "" for other fields.

    The name must be in lower case.

    >>> media_kind("wav"), media_kind("0.mp4"), media_kind("jpg"), media_kind("mpg")
    ('audio', 'video', '', '')
    """
    extension = suffix.rpartition(".")[2]
    if extension in _OF_AUDIO:
        return "audio"
    return "video" if extension in _OF_VIDEO else ""


def promised_format(suffix: str) -> str:
    """Return the format that a field name's extension promises, "" if none.

    The name must be in lower case.
    """
    return _PROMISED.get(suffix.rpartition(".")[2], "")


def format_title(name: str) -> str:
    """Return the name of a format for messages.

    >>> format_title("wav"), format_title("matroska")
    ('WAV', 'Matroska or WebM')
    """
    return _TITLES.get(name, name.upper())


def media_format(head: bytes) -> str:
    r"""Return the audio or video format of a file by its first bytes, "" if it is unknown.

    An ID3 tag is not looked through: see ``tag_length``.

    >>> media_format(b"RIFF\x24\0\0\0WAVEfmt "), media_format(b"\xff\xfb\x90\x64"), media_format(b"<html>")
    ('wav', 'mp3', '')
    """
    if head[:4] in _RIFF and head[8:12] in (b"WAVE", b"AVI "):
        return "wav" if head[8:12] == b"WAVE" else "avi"
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    if head[4:8] in _BOXES:
        return "mp4"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if (
        head[:1] == b"G"
        and head[_PACKET : _PACKET + 1] == b"G" == head[2 * _PACKET : 2 * _PACKET + 1]
    ):
        return "mpeg"
    # Encoders may pad with zeros, and decoders skip them.
    return _frame_format(head.lstrip(b"\0")[:4])


def tag_length(head: bytes) -> int:
    r"""Return the size in bytes of the ID3v2 tag before the first frame of an MP3; 0 without one.

    >>> tag_length(b"ID3\x04\0\0\0\0\x02\x01")
    267
    """
    if head[:3] != b"ID3" or len(head) < 10 or max(head[6:10]) > 127:
        return 0
    footer = 10 if head[5] & 16 else 0
    return 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]) + footer


def _frame_format(head: bytes) -> str:
    """Return "mp3" or "aac" by a frame header, "" for neither.

    "mp3" is the first frame of layers II and III of MPEG audio, "aac" one of ADTS.
    """
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return ""
    version, layer, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2]
    if not layer:
        return "aac" if head[1] & 0xF6 == 0xF0 and rate >> 2 & 15 < 13 else ""
    return "mp3" if layer < 3 and version != 1 and rate >> 4 != 15 and rate >> 2 & 3 != 3 else ""


def least_size(head: bytes) -> int:
    """Return the least size in bytes of a complete file by its header, 0 if the header lacks it.

    Matroska and WebM: the end of the segment. AVI: the end of the first RIFF chunk. WAV: the same,
    unless it was written into a pipe, where encoders do not know the length. For others see
    ``is_cut``.

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
    """Return an EBML number and its end position.

    None if it is missing, or is the value for an unknown size.
    """
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    if not first or at + length > len(data):
        return None
    bits = 7 * length
    value = int.from_bytes(data[at : at + length], "big") & (1 << bits) - 1
    return None if value == (1 << bits) - 1 else (value, at + length)
