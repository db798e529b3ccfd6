"""Single header blocks are read as Python's tarfile reads them, up to the field limits.

Also tests blocks that are not headers.
"""

import tarfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.shards.tars import BLOCK, header, with_checksum
from wdsflow.shards.tar import tar_entry, tar_header
from wdsflow.shards.tar.tar_header import (
    GNU,
    REGULAR,
    SUPPORTED,
    BadHeader,
    RefusedRecord,
    checksum_holds,
    decode_number,
    decode_text,
    is_header,
    looks_like,
    padded,
    parse_header,
    read_records,
    refuses_negative,
)

STDLIB: Any = tarfile  # in part without types
VALUES = b"\0\t /0578A\x7f\x80\x81\xc3\xffLS"  # what may be special somewhere, and what is not


def outcome(read: Callable[..., Any], *given: Any) -> Any:
    try:
        return read(*given)
    except (BadHeader, tarfile.HeaderError):
        return "bad header"


def changed(block: bytes, places: range, values: bytes) -> Iterator[bytes]:
    for place in places:
        for value in values:
            yield block[:place] + bytes([value]) + block[place + 1 :]


def fields() -> Iterator[bytes]:
    for field in (
        b"0000644\0",
        b"   12 3 ",
        b"\x80" + bytes(7),
        b"\xff" * 8,
        b"\x80" + b"\xff" * 11,
        b"\xff" * 12,
    ):
        yield from changed(field, range(len(field)), bytes(range(256)))
    yield from (
        b"",
        b" " * 12,
        b"\0" * 12,
        b"-5\0\0\0\0\0\0",
        b"1_0 \0\0\0\0",
        b"0o17\0\0\0\0",
        b"+7\0\0\0\0\0\0",
    )


def test_numbers_are_those_of_tarfile_in_octal_and_in_base_256():
    different = [
        field
        for field in fields()
        if field and outcome(decode_number, field) != outcome(STDLIB.nti, field)
    ]
    assert different == []
    assert (decode_number(b"\x80" + bytes(6) + b"\x05"), decode_number(b"\xff" * 11 + b"\xfb")) == (
        5,
        -5,
    )


def blocks() -> Iterator[bytes]:
    for value in (0, 1, 127, 128, 255):
        yield bytes([value]) * BLOCK
        for start, end in (
            (0, 1),
            (147, 148),
            (148, 156),
            (156, 157),
            (0, 256),
            (255, 257),
            (256, 512),
            (511, 512),
        ):
            yield bytes(start) + bytes([value]) * (end - start) + bytes(BLOCK - end)
    yield from (Random(seed).randbytes(BLOCK) for seed in range(20))


def test_a_checksum_holds_where_it_is_the_sum_of_unsigned_or_of_signed_bytes():
    for block in blocks():
        sums = set(STDLIB.calc_chksums(block))
        near = {total + more for total in sums for more in (-256, -255, -1, 0, 1, 255, 256)}
        assert {total for total in near if checksum_holds(block, total)} == sums


def test_sizes_are_rounded_up_to_blocks_as_tarfile_does():
    sizes = range(-3 * BLOCK, 3 * BLOCK)
    assert [padded(size) for size in sizes] == [STDLIB.TarInfo()._block(size) for size in sizes]
    assert [padded(size) for size in (-512, -511, 0, 1, 511, 512, 513)] == [
        -512,
        0,
        0,
        512,
        512,
        512,
        1024,
    ]


def test_a_text_ends_at_its_first_nul():
    for field in (b"", b"\0", b"ab", b"a\0b\0", b"\xc3\xa9\xff\0"):
        assert decode_text(field) == STDLIB.nts(field, "utf-8", "surrogateescape")


def by_tarfile(block: bytes, first: bool) -> Any:
    read = getattr(STDLIB.TarInfo, "_frombuf", STDLIB.TarInfo.frombuf)
    more = {} if first or read == STDLIB.TarInfo.frombuf else {"dircheck": False}
    info = read(block, "utf-8", "surrogateescape", **more)
    sparse = getattr(info, "_sparse_structs", None)
    return info.name, info.size, info.type, sparse and sparse[1:]


def by_us(block: bytes, first: bool) -> Any:
    return tuple(parse_header(block, first=first))


FILE = header(b"0", 1000, "a/b.jpg")
FOLDER = header(b"5", 0, "a/b/")
OLD_FOLDER = header(b"\0", 0, "a/b/")
PREFIXED = FILE[:345] + b"one/two".ljust(155, b"\0") + FILE[500:]
SPARSE = (
    FILE[:156] + b"S" + FILE[157:386] + b"00000000017\0" * 8 + b"\0" + b"00000001000\0" + FILE[495:]
)
NEGATIVE = FILE[:124] + b"\xff" * 12 + FILE[136:]
DEVICE = FILE[:329] + b"0000001700000017" + FILE[345:]
FULL = b"n" * 100 + FILE[100:345] + b"\xff" * 167
KIND = range(156, 157)
CASES = {
    "all of a file": (FILE, range(BLOCK), b"\0/8\xff"),
    "the fields of a file": (FILE, range(90, 180), VALUES),
    "a device": (DEVICE, range(325, 350), VALUES),
    "fields that are full": (FULL, range(99, 101), VALUES),
    "its kind": (FILE, KIND, bytes(range(256))),
    "a folder": (FOLDER, range(10), VALUES),
    "a folder with a name of one letter": (header(b"5", 0, "a/X/"), range(10), VALUES),
    "a folder of old": (OLD_FOLDER, range(10), VALUES),
    "a prefix": (PREFIXED, range(343, 360), VALUES),
    "a kind with a prefix": (PREFIXED, KIND, bytes(range(256))),
    "a sparse file": (SPARSE, range(380, 500), b"\08\xff"),
    "a negative size": (NEGATIVE, range(124, 136), VALUES),
}


@pytest.mark.parametrize("name", CASES)
def test_a_header_is_read_as_tarfile_reads_it_whatever_byte_is_changed(name):
    """Under a checksum that holds, so that it is the fields that decide."""
    block, places, values = CASES[name]
    for case in (with_checksum(each, 0) for each in (block, *changed(block, places, values))):
        for first in (True, False) if case[156] == 0 else (True,):
            assert outcome(by_us, case, first) == outcome(by_tarfile, case, first), case


def test_a_header_is_refused_where_its_checksum_does_not_hold():
    for case in (*changed(FILE, range(0, BLOCK, 7), b"\1"), b"\xff" * BLOCK):
        assert outcome(by_us, case, True) == outcome(by_tarfile, case, True) == "bad header"


def test_a_checksum_may_fill_its_field():
    block = FILE[:148] + b"%08o" % max(STDLIB.calc_chksums(FILE)) + FILE[156:]
    assert (
        outcome(by_us, block, True)
        == outcome(by_tarfile, block, True)
        == outcome(by_us, FILE, True)
    )


def test_kinds_of_members_are_those_of_tarfile():
    assert set(tarfile.REGULAR_TYPES) == REGULAR
    assert set(tarfile.SUPPORTED_TYPES) == SUPPORTED
    assert set(tarfile.GNU_TYPES) == GNU


@pytest.mark.parametrize("size", [0, 511, 512, 513, 8**11 - 1, 8**11, 256**11 // 2, -1, -512])
def test_sizes_are_read_at_their_borders(size):
    info = tarfile.TarInfo("a.jpg")
    info.size = size
    assert parse_header(info.tobuf(tarfile.GNU_FORMAT)).size == size


def magicless(checksum: bytes = b"") -> bytes:
    block = with_checksum(FILE[:257] + bytes(255), 0)
    return block[:148] + (checksum or block[148:156]) + block[156:]


SUM = b"%o" % max(STDLIB.calc_chksums(magicless()))


@pytest.mark.parametrize(
    ("block", "sound", "old"),
    [
        (FILE, True, True),
        (FILE[:5] + b"x" + FILE[6:], False, False),
        (FILE[:257] + b"USTAR" + FILE[262:], False, False),
        (with_checksum(FILE[:100] + b"nonsense" + FILE[108:], 0), False, False),
        (magicless(), False, True),
        (magicless(b"  " + SUM + b"\0 "), False, True),
        (magicless(b"00" + SUM + b"\0 "), False, True),
        (magicless(SUM.rjust(8)), False, False),
        (magicless(SUM + b"x  "), False, False),
        (with_checksum(b"\0" + magicless()[1:], 0), False, False),
        (bytes(BLOCK), False, False),
    ],
)
def test_a_block_is_taken_for_a_header_by_its_magic_or_by_the_form_of_its_checksum(
    block, sound, old
):
    assert (is_header(block), is_header(block, old=True)) == (sound, old)


MAGIC = {
    b"PK\x03\x04": "zip archive",
    b"PK\x05\x06": "empty zip archive",
    b"\x89PNG": "PNG image",
    b"\xff\xd8\xff": "JPEG image",
    b"GIF8": "GIF image",
    b"RIFF": "RIFF file (WebP, WAV, AVI)",
    b"PAR1": "Parquet file",
    b"ARROW1": "Arrow file",
    b"7z\xbc\xaf": "7z archive",
    b"Rar!": "RAR archive",
    b"%PDF": "PDF document",
    b"\x7fELF": "program",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x04\x22\x4d\x18": "lz4 data",
    b"\x89HDF": "HDF5 file",
    b"\x93NUMPY": "NumPy array",
    b"SQLite format 3": "SQLite database",
    b"\0\0\0\x18ftyp": "MP4 or HEIF file",
}
WORDS = {
    b"version https://git-lfs": "Git LFS pointer",
    b"<!DOCTYPE html": "HTML page",
    b"<html": "HTML page",
    b"<HEAD": "HTML page",
    b"<?xml": "XML document",
    b"\n%pdf": "PDF document",
    b"-----BEGIN": "PEM text",
}


@pytest.mark.parametrize(("magic", "what"), MAGIC.items())
def test_a_file_that_is_no_tar_is_called_by_its_magic_and_by_no_less(magic, what):
    assert looks_like(magic + b"\0rest") == what
    assert looks_like(magic[:-1] + b"\1rest") == looks_like(b"\1" + magic) == ""


@pytest.mark.parametrize(("word", "what"), WORDS.items())
def test_a_text_that_is_no_tar_is_called_by_its_first_word_and_by_no_less(word, what):
    assert looks_like(word + b" rest") == what
    assert looks_like(word[:-1] + b"~") in ("text", "XML or HTML text")


LOOKS = {
    b"<Error>": "XML or HTML text",
    b'{"error": 1}': "JSON text",
    b"[1]": "JSON text",
    b"\xef\xbb\xbf\r\n\t <html>": "HTML page",
    b"no\fsuch\tkey\r\n": "text",
    b"caf\xc3\xa9": "text",
    b"a\x1fb": "",
    b"a\x0bb": "",
    b"\0": "",
    b"": "",
    b"\0\0\0ftypheic": "",
}


@pytest.mark.parametrize(("start", "what"), LOOKS.items())
def test_what_is_no_tar_is_called_by_its_first_bytes(start, what):
    assert looks_like(start) == what


def record(word: bytes, value: bytes) -> bytes:
    """Return a record of an extended header."""
    length = len(word) + len(value) + 3
    while len(b"%d" % length) + len(word) + len(value) + 3 != length:
        length += 1
    return b"%d %s=%s\n" % (length, word, value)


def records_or_problem(body: bytes) -> object:
    try:
        return read_records(body)
    except (BadHeader, RefusedRecord) as error:
        return type(error), str(error)


MALFORMED = BadHeader, "an extended header has a malformed record"
# What becomes of a body: where Python's tarfile checks how records are framed, and where not.
FRAMED = {
    b"": ({}, {}),
    record(b"path", b"a/b"): ({"path": "a/b"}, {"path": "a/b"}),
    record(b"path", b"a=b\nc") + record(b"size", b"5"): ({"path": "a=b\nc", "size": "5"},) * 2,
    record(b"path", b"\xff") + bytes(20): ({"path": "\udcff"}, {"path": "\udcff"}),
    record(b"path", b"a") + b"\0" + record(b"size", b"5"): ({"path": "a"}, {"path": "a"}),
    record(b"path", b""): ({"path": ""}, {"path": ""}),
    b"5 a=\n": ({"": ""}, {"": ""}),
    b"4 =\n": (MALFORMED, {}),
    b"5 =a\n": (MALFORMED, {}),
    b"6 abc\n": (MALFORMED, {}),
    b"9 path=a": (MALFORMED, {"path": "a"}),
    b"9 path=ab": (MALFORMED, {"path": "a"}),
    b"10 path=a\nz": (MALFORMED, {"path": "a"}),
    b"99 path=a\n": (MALFORMED, {"path": "a\n"}),
    b"path=a\n": (MALFORMED, {}),
    b"0 path=a\n": (MALFORMED, (BadHeader, "an extended header has a record of length 0")),
}


@pytest.mark.parametrize("body", FRAMED)
def test_records_are_framed_as_strictly_as_this_python_asks(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for strict, expected in zip((True, False), FRAMED[body], strict=True):
        monkeypatch.setattr(tar_header, "is_strict", lambda strict=strict: strict)
        assert records_or_problem(body) == expected, strict


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"9" * 5000 + b" path=a\n", "an extended header has a number that cannot be read"),
        (b"5 a=\n" * 100_000, ""),
        (b"2 " * 200_000 + b"x=", "an extended header has overlapping records"),
        (record(b"hdrcharset", b"\xff"), "an extended header names a charset that is not text"),
        (
            b" hdrcharset=\xff\n" + record(b"hdrcharset", b"\xfe"),
            "an extended header names a charset that is not text",
        ),
        (record(b"hdrcharset", b"BINARY") + record(b"hdrcharset", b"\xff"), ""),
        (b" hdrcharset=\xff\n", ""),
        (b"30 hdrcharset=\xff", ""),
    ],
)
def test_records_that_are_not_framed_are_refused_only_where_tarfile_would_fail(
    body: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_header, "is_strict", lambda: False)
    found = records_or_problem(body)
    assert found == (RefusedRecord, problem) if problem else isinstance(found, dict)


def test_negative_sizes_are_refused_where_this_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refuses_negative() is (outcome(STDLIB.TarInfo()._block, -1) == "bad header")
    monkeypatch.setattr(tar_entry, "refuses_negative", lambda: True)
    assert (tar_entry.round_to_blocks(0), tar_entry.round_to_blocks(513)) == (0, 1024)
    with pytest.raises(BadHeader, match=r"^a size is negative$"):
        tar_entry.round_to_blocks(-1)
    monkeypatch.setattr(tar_entry, "refuses_negative", lambda: False)
    assert tar_entry.round_to_blocks(-513) == padded(-513)
