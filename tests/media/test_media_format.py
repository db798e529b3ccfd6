"""Audio and video by their first bytes, on files that FFmpeg and Python's wave wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import encoded, photo
from tests.sounds import sound, wav
from tests.videos import filmed, frame
from wdsflow.media import format_title, media_format, media_kind, promised_format, tag_length
from wdsflow.scan.content.media_content import media_notes_and_format

AUDIO = {
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("ipod", "aac"),
    "aac": ("adts", "aac"),
}
VIDEO = {
    "mp4": ("mp4", "mpeg4"),
    "mov": ("mov", "mpeg4"),
    "webm": ("webm", "libvpx"),
    "mkv": ("mkv", "mpeg4"),
    "avi": ("avi", "mpeg4"),
    "flv": ("flv", "flv"),
}
TELLS_LENGTH = {"wav", "m4a", "mp4", "mov", "webm", "mkv", "avi"}


def made():
    pictures = [frame(number) for number in range(3)]
    return {
        "wav": wav(),
        **{name: sound(*how) for name, how in AUDIO.items()},
        "aiff": sound("aiff", "pcm_s16be"),
        **{name: filmed(pictures, kind=kind, codec=codec) for name, (kind, codec) in VIDEO.items()},
    }


@pytest.fixture(scope="module")
def files():
    return made()


def notes(name, data):
    return media_notes_and_format(
        name, len(data), lambda offset, count: data[offset : offset + count]
    )


def test_real_files_are_what_their_names_say(files):
    assert {name: notes(name, data)[0] for name, data in files.items()} == dict.fromkeys(files, ())
    assert {
        name: media_format(data[:64]) or "tagged" for name, data in files.items() if name != "mp3"
    } == {name: promised_format(name) for name in files if name != "mp3"}


def test_a_file_under_the_name_of_another_format_is_found(files):
    for name, data in files.items():
        for other in files:
            expected = (
                ("media.wrong-format",) if promised_format(other) != promised_format(name) else ()
            )
            assert notes(other, data) == (expected, format_title(promised_format(name))), (
                name,
                other,
            )


def test_a_cut_file_is_found_where_the_format_tells_its_length(files):
    for name, data in files.items():
        found = {kept: notes(name, data[: len(data) * kept // 100])[0] for kept in (30, 60, 95)}
        expected = ("media.cut",) if name in TELLS_LENGTH else ()
        assert found == dict.fromkeys(found, expected), name


def test_pictures_texts_and_zeros_are_no_media():
    heif = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)
    jpeg, png = encoded(photo(), "JPEG"), encoded(photo(), "PNG")
    texts = (
        b"<html>404</html>",
        b'{"a": 1}',
        b"RIFF",
        "ÿa text".encode("utf-16"),
        b"a.wav",
        bytes(8_000),
    )
    for data in (jpeg, png, encoded(photo(), "WEBP"), heif, *texts):
        assert notes("mp4", data)[0] == notes("wav", data)[0] == ("media.not-media",), data[:16]
    assert notes("mp3", b"") == (("media.empty",), "")


def test_an_mp3_with_a_large_tag_is_looked_at_behind_it(files):
    length = 70_000
    tag = (
        b"ID3\x04\0\0"
        + bytes([0, length >> 14 & 127, length >> 7 & 127, length & 127])
        + bytes(length)
    )
    bare = files["mp3"][tag_length(files["mp3"]) :]
    assert tag_length(tag) == len(tag)
    assert notes("mp3", tag + bare) == ((), "MP3")
    assert notes("wav", tag + bare) == (("media.wrong-format",), "MP3")
    assert notes("flac", tag + files["flac"]) == ((), "FLAC")
    assert notes("mp3", tag[:-1]) == (("media.cut",), "")


def test_writers_that_did_not_know_the_length_of_a_wav_cut_nothing():
    data = wav()
    for length in (0xFFFFFFFF, 0x7FFFFFFF, 0, len(data)):
        assert notes("wav", data[:4] + length.to_bytes(4, "little") + data[8:])[0] == ()


def test_an_mp4_in_fragments_is_whole(files):
    pictures = [frame(number) for number in range(30)]
    options = {"movflags": "frag_keyframe+empty_moov"}
    whole = filmed(pictures, kind="mp4", keys=1, **options)
    assert b"moof" in whole
    assert notes("mp4", whole) == ((), "MP4 or MOV")
    first = filmed(pictures, kind="mp4", movflags="faststart")
    assert notes("mp4", first) == ((), "MP4 or MOV")


def test_a_source_that_cannot_be_read_says_nothing(files):
    assert (
        media_notes_and_format(
            "mp4", 1 << 40, lambda offset, count: files["mp4"][:4_096][offset : offset + count]
        )[0]
        == ()
    )
    assert media_notes_and_format("wav", 1_000, lambda offset, count: b"") == ((), "")


@given(
    st.binary(max_size=600), st.sampled_from(["wav", "mp3", "flac", "mp4", "webm", "avi", "ogg"])
)
def test_nothing_that_is_read_raises(data, name):
    for start in (
        b"",
        b"ID3\x04\0\0",
        b"\0\0\0\x10ftyp",
        b"\x1aE\xdf\xa3",
        b"RIFF\xff\0\0\0WAVE",
        b"\xff\xfb",
    ):
        found, _ = notes(name, start + data)
        assert set(found) <= {"media.empty", "media.not-media", "media.wrong-format", "media.cut"}


def test_kinds_go_by_the_last_part_of_a_name():
    assert [
        media_kind(name) for name in ("0.wav", "left.flac", "mp4", "mp4.txt", "txt", "mpg")
    ] == [
        *("audio", "audio", "video"),
        *("", "", ""),
    ]
