"""A walk over the whole header of a JPEG, up to its first scan: will Pillow open it, and where is what."""

from struct import Struct, error
from typing import NamedTuple

_segment = Struct(">BBH").unpack_from

_SHORTEST_JFIF = _SHORTEST_ADOBE = 14
_SHORTEST_ICC = 16
_APP0, _APP1, _APP2, _APP14, _COMMENT = 0xE0, 0xE1, 0xE2, 0xEE, 0xFE
_QUANTIZERS, _SCAN = 0xDB, 0xDA
_FRAMES = (0xC0, 0xC1, 0xC2)
_OTHERS = frozenset((0xC4, 0xDD, _COMMENT)) | frozenset(range(0xE3, 0xF0))
_XMP = b"http://ns.adobe.com/xap/1.0/\0"


class JpegTables(NamedTuple):
    """What lies before the first scan of a plain JPEG."""

    luminance_place: int  # of the quantization step of the mean of the luminance; 0 if the first component is none
    luminance_wide: bool  # stored in two bytes
    luminance_step: int

    def with_luminance_step(self, data: bytes, step: int) -> bytes:
        """Return the file with another quantization step for the mean."""
        place = self.luminance_place
        width = 2 if self.luminance_wide else 1
        return b"".join((data[:place], step.to_bytes(width, "big"), memoryview(data)[place + width :]))


def read_tables(data: bytes) -> JpegTables | None:
    """Return the tables of a JPEG that ``PIL.Image.open`` is certain to take if libjpeg takes it.

    None means "ask Pillow": where it would read EXIF or multi-picture data, or meets a segment that its own walk
    treats in another way than libjpeg's.
    """
    position = 2
    steps: dict[int, tuple[int, bool, int]] = {}
    frame = b""
    jfif = adobe_rgb = False
    try:
        while True:
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF or length < 2:
                return None
            start, end = position + 4, position + 2 + length
            if marker == _QUANTIZERS:
                _quantizers(data, start, end, steps)
            elif marker in _FRAMES:
                frame = data[start:end]
            elif marker == _APP0:
                if length < _SHORTEST_JFIF:
                    return None
                jfif = jfif or data.startswith(b"JFIF\0", start)
            elif marker == _APP14:
                if length < _SHORTEST_ADOBE:
                    return None
                adobe_rgb = data.startswith(b"Adobe", start) and data[start + 11] == 0
            elif marker == _APP1:
                if not data.startswith(_XMP, start):
                    return None
            elif marker == _APP2:
                if length < _SHORTEST_ICC or data.startswith(b"MPF\0", start):
                    return None
            elif marker == _SCAN:
                return _tables(frame, steps, adobe_rgb and not jfif)
            elif marker not in _OTHERS:
                return None
            position = end
    except (error, IndexError):
        return None


def _quantizers(data: bytes, position: int, end: int, steps: dict[int, tuple[int, bool, int]]) -> None:
    while position < end:
        wide, table = data[position] >> 4, data[position] & 15
        first = data[position + 1]
        steps[table] = (position + 1, bool(wide), first << 8 | data[position + 2] if wide else first)
        position += 129 if wide else 65


def _tables(frame: bytes, steps: dict[int, tuple[int, bool, int]], rgb: bool) -> JpegTables:
    """Find the step of the first component, if that is luminance as libjpeg decides it."""
    components = frame[5]
    luminance = components == 1 or (components == 3 and not rgb and frame[6:15:3] != b"RGB")
    place, wide, step = steps.get(frame[8], (0, False, 0)) if luminance else (0, False, 0)
    return JpegTables(place, wide, step)
