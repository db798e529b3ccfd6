"""The JPEG tables before the first scan: what Pillow reads of them and how coarse the image is."""

from struct import Struct, error
from typing import NamedTuple

_segment = Struct(">BBH").unpack_from

_APP0, _APP1, _APP2, _APP14 = 0xE0, 0xE1, 0xE2, 0xEE
_QUANTIZERS, _SCAN = 0xDB, 0xDA
# Any of them.
_FRAME, _FRAMES = 0xC0, (0xC0, 0xC1, 0xC2)
# Tables, comments, application segments.
_SKIPPED = frozenset((0xC4, 0xDD, 0xFE)) | frozenset(range(0xE3, 0xF0))
_MOST_SEGMENTS = 10_000
_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_JFIF, _ADOBE, _MULTI_PICTURE = b"JFIF\0", b"Adobe", b"MPF\0"
# Pillow reads into these segments without asking for their
# length, and gives up where they are shorter.
_SHORTEST = {_APP0: 14, _APP2: 16, _APP14: 14}

# Place in the file, stored in two bytes?, value.
Step = tuple[int, bool, int]


class JpegTables(NamedTuple):
    """Facts from before the first scan of a JPEG."""

    # Nothing at which Pillow's ``open`` could fail, but not libjpeg.
    plain: bool
    # Quantization step of the mean of a luminance block;
    # its place is 0 where there is no luminance.
    mean: Step


def read_tables(data: bytes) -> JpegTables | None:
    """Return the tables of a JPEG, None if anything is unusual: then ask Pillow.

    ``plain`` is false where Pillow would read EXIF or multi-picture data, or a segment is too short
    for it.
    """
    position = 2
    plain = True
    steps: dict[int, Step] = {}
    seen: dict[int, bytes] = {}
    try:
        for _ in range(_MOST_SEGMENTS):
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF or length < 2:
                return None
            start, end = position + 4, position + 2 + length
            if marker == _QUANTIZERS:
                _read_steps(data, start, end, steps)
            elif marker in _FRAMES:
                seen[_FRAME] = data[start:end]
            elif marker == _APP1:
                plain = plain and data.startswith(_XMP, start)
            elif marker in _SHORTEST:
                seen.setdefault(marker, data[start : start + 12])
                if length < _SHORTEST[marker] or data.startswith(_MULTI_PICTURE, start):
                    plain = False
            elif marker == _SCAN:
                return JpegTables(plain, _mean_of_luminance(seen, steps))
            elif marker not in _SKIPPED:
                return None
            position = end
    except (error, IndexError, KeyError):
        pass
    return None


def _read_steps(data: bytes, position: int, end: int, steps: dict[int, Step]) -> None:
    """Note the first step of each table of a segment."""
    while position < end:
        wide, table, first = data[position] >> 4, data[position] & 15, data[position + 1]
        steps[table] = (
            position + 1,
            bool(wide),
            first << 8 | data[position + 2] if wide else first,
        )
        position += 129 if wide else 65


def _mean_of_luminance(seen: dict[int, bytes], steps: dict[int, Step]) -> Step:
    """Return the step for the first component, if libjpeg takes that for luminance."""
    frame, adobe = seen[_FRAME], seen.get(_APP14, b"")
    rgb = frame[6:15:3] == b"RGB" or (adobe.startswith(_ADOBE) and adobe[11] == 0)
    luminance = frame[5] == 1 or (
        frame[5] == 3 and (not rgb or seen.get(_APP0, b"").startswith(_JFIF))
    )
    return steps[frame[8]] if luminance else (0, False, 0)
