"""Compressed streams, a piece at a time: whole, cut, and followed by something else."""

import bz2
import gzip
import lzma
import random
import zlib

import pytest
import zstandard

from wdsflow.shards.source import decompress
from wdsflow.shards.source.decompress import CODECS, DamagedStream, UnsupportedStream

DATA = random.Random(1).randbytes(3000) + bytes(200_000)
PACKED = {
    "gz": gzip.compress(DATA, mtime=0),
    "bz2": bz2.compress(DATA),
    "xz": lzma.compress(DATA),
    "zst": zstandard.ZstdCompressor().compress(DATA),
}


def unpacked(kind, data, step):
    """Return the stream, what it holds, and what follows it."""
    parts = iter([data[at : at + step] for at in range(0, len(data), step)])
    stream = CODECS[kind](lambda: next(parts, b""), next(parts, b""))
    got = b"".join(stream.pieces())
    rest = stream.bytes_after()
    while more := stream.raw():
        rest += more
    return stream, got, rest


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
@pytest.mark.parametrize("rest", [b"", b"and more than eight bytes follow"])
@pytest.mark.parametrize("kind", PACKED)
def test_a_stream_gives_what_was_packed_and_what_follows(kind, rest, step):
    if step == 1 and kind == "bz2":
        step = 3
    stream, got, after = unpacked(kind, PACKED[kind] + rest, step)
    assert (got == DATA, after, stream.complete, stream.given, stream.wrong) == (
        True,
        rest,
        True,
        len(DATA),
        "",
    )


@pytest.mark.parametrize("cut", [1, 4, 8, 9, 500])
@pytest.mark.parametrize("kind", PACKED)
def test_a_cut_stream_is_not_complete(kind, cut):
    try:
        stream, got, _ = unpacked(kind, PACKED[kind][:-cut], 64)
    except DamagedStream:
        return
    assert DATA.startswith(got)
    assert not stream.complete


@pytest.mark.parametrize("at", [-1, -4, -5, -8])
def test_a_wrong_checksum_or_length_of_gzip_is_noted(at):
    data = bytearray(PACKED["gz"])
    data[at] ^= 1
    stream, got, _ = unpacked("gz", bytes(data), 64)
    assert got == DATA
    assert (stream.complete, stream.proven) == (True, 0)
    assert stream.wrong == "its checksum or length does not match its contents"


@pytest.mark.parametrize("flags", [0, 2, 8, 16, 10, 24, 26])
def test_the_header_of_gzip_may_have_a_name_a_comment_and_a_checksum(flags):
    head = bytes([0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 3])
    head += (
        (b"name\0" if flags & 8 else b"")
        + (b"a comment\0" if flags & 16 else b"")
        + (b"\0\0" if flags & 2 else b"")
    )
    for length in range(len(head)):
        assert decompress._gzip_header(head[:length]) is None
    assert decompress._gzip_header(head + b"\0more") == len(head)
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = packer.compress(DATA) + packer.flush()
    end = zlib.crc32(DATA).to_bytes(4, "little") + len(DATA).to_bytes(4, "little")
    for step in (1, 4096):
        stream, got, _ = unpacked("gz", head + body + end, step)
        assert (got == DATA, stream.complete, stream.wrong) == (True, True, "")


def test_an_extra_field_of_gzip_cannot_be_streamed():
    with pytest.raises(UnsupportedStream, match="extra field"):
        decompress._gzip_header(bytes([0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 3]))


@pytest.mark.parametrize(
    ("length", "given", "hidden"),
    [
        (512, 0, True), (0, 0, False), (513, 513, False), (1024, 1 << 20, True), (512, 512 + (16 << 20), False),
        (1024, 1023 + (16 << 20), True), (1024, (1 << 32) + 1024, True), (511, 511, False),
    ],
)  # fmt: skip
def test_a_length_at_the_end_shows_that_a_stream_of_gzip_is_whole_but_damaged(
    length, given, hidden
):
    stream = CODECS["gz"](lambda: b"", b"")
    stream.given = given
    assert (
        stream.is_complete_but_damaged(b"\xff\xff\xff\xff" + length.to_bytes(4, "little")) is hidden
    )


def test_two_bytes_show_the_same_of_xz():
    stream = CODECS["xz"](lambda: b"", b"")
    assert stream.is_complete_but_damaged(b"..YZ") is True
    assert stream.is_complete_but_damaged(b"YZ.") is False


def test_frames_of_zstd_that_follow_each_other_are_one_stream():
    for step in (1, 5, 1 << 20):
        stream, got, rest = unpacked("zst", PACKED["zst"] * 3 + b"tail", step)
        assert (got == DATA * 3, rest, stream.complete) == (True, b"tail", True)
