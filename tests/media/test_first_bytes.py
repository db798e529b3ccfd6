"""Media formats and durations, from hand-written bytes.

Tests each number that the formats define, and the numbers next to it.
"""

import pytest

from wdsflow.media import (
    format_title,
    is_cut,
    least_size,
    media_format,
    media_kind,
    promised_format,
    tag_length,
)


def test_frames_of_mpeg_audio_and_of_adts_are_told_by_their_first_bits():
    found = {
        (one, two): media_format(bytes([0xFF, one, two, 0]))
        for one in range(256)
        for two in range(256)
    }
    for (one, two), name in found.items():
        bits = f"{one:08b}{two:08b}"
        sync, version, layer, rate, frequency = (
            bits[:3],
            bits[3:5],
            bits[5:7],
            bits[8:12],
            bits[12:14],
        )
        if sync != "111":
            expected = ""
        elif layer == "00":
            expected = "aac" if bits[3] == "1" and int(bits[10:14], 2) <= 12 else ""
        else:
            known = version != "01" and rate != "1111" and frequency != "11"
            expected = "mp3" if known and layer in {"01", "10"} else ""
        assert name == expected, bits
    assert media_format(b"\0\0\0\xff\xfb\x90\x64") == "mp3"
    assert media_format(b"\xff\xfb\x90") == media_format(b"\xfe\xfb\x90\x64") == ""


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"RIFF....WAVE", "wav"),
        (b"RF64....WAVE", "wav"),
        (b"BW64....WAVE", "wav"),
        (b"RIFF....AVI ", "avi"),
        (b"RIFF....WEBP", ""),
        (b"JUNK....WAVE", ""),
        (b"FORM....AIFF", "aiff"),
        (b"FORM....AIFC", "aiff"),
        (b"FORM....ILBM", ""),
        (b"....ftypisom", "mp4"),
        (b"....moov", "mp4"),
        (b"....wide", "mp4"),
        (b"....abcd", ""),
        (b"fLaC", "flac"),
        (b"OggS", "ogg"),
        (b"\x1aE\xdf\xa3", "matroska"),
        (b"FLV\x01", "flv"),
        (b"FLV\x02", ""),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf"),
        (b"\0\0\x01\xba", "mpeg"),
        (b"\0\0\x01\xb3", "mpeg"),
        (b"ADIF", "aac"),
        ((b"G" + bytes(187)) * 3, "mpeg"),
        ((b"G" + bytes(187)) * 2, ""),
        ((b"G" + bytes(188)) * 3, ""),
        (b"G" + bytes(375) + b"G", ""),
        (b"", ""),
    ],
)
def test_a_format_is_told_by_its_magic(head, name):
    assert media_format(head) == name


def test_names_promise_formats_and_formats_have_titles():
    kinds = {
        "audio": {
            "wav": "WAV",
            "oga": "Ogg",
            "opus": "Ogg",
            "m4a": "MP4 or MOV",
            "aac": "AAC",
            "aif": "AIFF",
        },
        "video": {
            "m4v": "MP4 or MOV",
            "mkv": "Matroska or WebM",
            "avi": "AVI",
            "ogv": "Ogg",
            "flv": "FLV",
        },
        "": {"mpg": "", "jpg": "", "": ""},
    }
    for kind, names in kinds.items():
        for name, title in names.items():
            assert (media_kind(f"0.{name}"), format_title(promised_format(f"0.{name}"))) == (
                kind,
                title,
            ), name
    assert [format_title(name) for name in ("mpeg", "asf", "flac")] == [
        "MPEG",
        "WMA or WMV",
        "FLAC",
    ]


@pytest.mark.parametrize(
    ("sizes", "flags", "length"),
    [
        ((0, 0, 0, 0), 0, 10),
        ((0, 0, 0, 127), 0, 137),
        ((0, 0, 1, 0), 0, 138),
        ((0, 1, 0, 0), 0, 10 + 128**2),
        ((1, 0, 0, 0), 0, 10 + 128**3),
        ((1, 2, 3, 4), 0, 10 + 128**3 + 2 * 128**2 + 3 * 128 + 4),
        ((0, 0, 0, 5), 16, 25),
        ((0, 0, 0, 5), 128 + 64 + 32 + 15, 15),
        ((0, 0, 0, 128), 0, 0),
        ((128, 0, 0, 0), 0, 0),
    ],
)
def test_a_tag_takes_its_head_what_it_says_and_its_footer(sizes, flags, length):
    head = b"ID3\x04\0" + bytes([flags, *sizes])
    assert tag_length(head) == tag_length(head + b"\xff" * 9) == length
    assert tag_length(head[:9]) == tag_length(b"x" + head) == 0


def segment(length, header=b"\x83abc"):
    return b"\x1aE\xdf\xa3" + header + b"\x18\x53\x80\x67" + length


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"RIFF\x05\0\0\0AVI ", 13),
        (b"RIFF\x05\x01\0\0WAVE", 269),
        (b"RIFF\xff\xff\xfe\x7fWAVE", 0x7FFEFFFF + 8),
        (b"RIFF\0\0\xff\x7fWAVE", 0),
        (b"RIFF\0\0\xff\x7fAVI ", 0x7FFF0000 + 8),
        (b"RIFF\x05\0\0\0WEBP", 0),
        (b"RIFX\x05\0\0\0WAVE", 0),
        (segment(b"\x81"), 14),
        (segment(b"\xfe"), 139),
        (segment(b"\xff"), 0),  # unknown
        (segment(b"\x40\x81"), 143),
        (segment(b"\x7f\xff"), 0),
        (segment(b"\x01" + bytes(5) + b"\x01\0"), 20 + 256),
        (segment(b"\x01" + b"\xff" * 7), 0),
        (segment(b"\x40"), 0),
        (segment(b"\0\xff"), 0),
        (segment(b""), 0),
        (segment(b"\x81", b"\x80"), 11),
        (segment(b"\x81", b"\x81"), 0),  # the header ends elsewhere
        (segment(b"\x81", b"\xff"), 0),
        (b"\x1aE\xdf\xa3", 0),
        (b"", 0),
    ],
)
def test_a_file_has_the_size_that_its_header_says(head, size):
    assert least_size(head) == size


def box(name, size=8, told=None):
    return (size if told is None else told).to_bytes(4, "big") + name + bytes(size - 8)


LARGE = b"\0\0\0\x01mdat" + (24).to_bytes(8, "big") + bytes(8)


@pytest.mark.parametrize(
    ("data", "cut"),
    [
        (box(b"moov"), False),
        (box(b"ftyp", 16) + box(b"moov", 20), False),
        (box(b"moof", 9), False),
        (box(b"ftyp", 16), True),
        (box(b"moov") + box(b"mdat", 30)[:-1], True),
        (box(b"moov") + box(b"mdat", 30), False),
        (box(b"moov") + bytes(7), False),
        (box(b"ftyp") + bytes(7), True),
        # A box without a name that goes on to the end, and no index before it.
        (
            box(b"ftyp") + bytes(8),
            True,
        ),
        (box(b"ftyp") + box(b"moov", told=0), False),
        (box(b"ftyp") + box(b"mdat", told=0), True),
        (box(b"moov") + box(b"mdat", told=0), False),
        (box(b"ftyp") + box(b"mdat", told=7), False),
        (box(b"ftyp", 16) + LARGE + box(b"moov"), False),
        (box(b"ftyp", 16) + LARGE, True),
        (box(b"moov") + LARGE[:-1], True),
        (box(b"ftyp") + box(b"a-b!"), False),
        (box(b"ftyp") + box(b"\xa9nam"), True),
        (box(b"ftyp") + box(b"\0\0\0\0"), True),
        (box(b"ftyp") * 63, True),
        (box(b"ftyp") * 64, False),
        (b"", True),
    ],
)
def test_an_mp4_is_complete_if_its_boxes_are_and_one_is_the_index(data, cut):
    assert is_cut(len(data), lambda offset, count: data[offset : offset + count]) is cut
