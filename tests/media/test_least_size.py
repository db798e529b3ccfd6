"""The size that the header of an audio or video file tells."""

import pytest

from wdsflow.media import least_size

EBML, SEGMENT = b"\x1aE\xdf\xa3", b"\x18\x53\x80\x67"


def riff(length: int, kind: bytes) -> bytes:
    return b"RIFF" + length.to_bytes(4, "little") + kind + b"LIST"


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (riff(0, b"AVI "), 8),
        (riff(1000, b"WAVE"), 1008),
        (riff(0x7FFEFFFF, b"WAVE"), 0x7FFF0007),
        (riff(0x7FFF0000, b"WAVE"), 0),
        (riff(0xFFFFFFFF, b"WAVE"), 0),
        (riff(0x7FFF0000, b"AVI "), 0x7FFF0008),
        (riff(0xFFFFFFFF, b"AVI "), 0x100000007),
        (riff(1000, b"WEBP"), 0),
        (b"RIFX" + riff(1000, b"WAVE")[4:], 0),
        (b"", 0),
        (EBML, 0),
        (EBML + b"\x80" + SEGMENT + b"\x81", 4 + 1 + 4 + 1 + 1),
        (EBML + b"\x83abc" + SEGMENT + b"\xfe", 4 + 1 + 3 + 4 + 1 + 0x7E),
        (EBML + b"\x83abc" + SEGMENT + b"\x40\x05", 4 + 1 + 3 + 4 + 2 + 5),
        (EBML + b"\x40\x03abc" + SEGMENT + b"\x21\x02\x03", 4 + 2 + 3 + 4 + 3 + 0x10203),
        (EBML + b"\x83abc" + SEGMENT + b"\x01" + bytes(6) + b"\x09", 4 + 1 + 3 + 4 + 8 + 9),
        (EBML + b"\x83abc" + SEGMENT + b"\x01" + b"\xff" * 7, 0),  # a size that is not known
        (EBML + b"\x83abc" + SEGMENT + b"\xff", 0),
        (EBML + b"\xff" + SEGMENT + b"\x81", 0),
        (EBML + b"\x83abc" + SEGMENT + b"\x00" * 9, 0),  # longer than numbers may be
        (EBML + b"\x83abc" + SEGMENT + b"\x40", 0),  # cut
        (EBML + b"\x83abc" + SEGMENT, 0),
        (EBML + b"\x84abc" + SEGMENT + b"\x81", 0),
        (EBML[:3] + b"\xa4\x83abc" + SEGMENT + b"\x81", 0),
    ],
)
def test_a_header_tells_the_size_of_its_file_or_nothing(head: bytes, size: int) -> None:
    assert least_size(head) == size
