"""Tar headers and PAX records, as Python's tarfile reads them."""

import re
import tarfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple
from zlib import adler32

# (offset, size) -> bytes, short at the end of the archive.
Read = Callable[[int, int], bytes]
BLOCK = 512
ZEROS = bytes(BLOCK)

REGULAR = frozenset((b"0", b"\0", b"7", b"S"))
SUPPORTED = frozenset((b"0", b"\0", b"1", b"2", b"5", b"6", b"7", b"3", b"4", b"L", b"K", b"S"))
GNU = frozenset((b"L", b"K", b"S"))

# Mode, owner, group, device: mostly the same.
_REPEATED = ((0, 8), (8, 16), (16, 24), (24, 32), (32, 40))
_CHECKSUM = re.compile(rb" *[0-7]{1,7}[\0 ]")
# Since 2026 tarfile accepts no old-style directory after an extended header.
_KEEPS_TYPE = hasattr(tarfile.TarInfo, "_frombuf")

# Starts of files that are no tars, and what these are.
_TEXT_STARTS = (
    (b"version https://git-lfs", "Git LFS pointer"),
    (b"<!doctype html", "HTML page"),
    (b"<html", "HTML page"),
    (b"<head", "HTML page"),
    (b"<?xml", "XML document"),
    (b"<", "XML or HTML text"),
    (b"{", "JSON text"),
    (b"[", "JSON text"),
    (b"%pdf", "PDF document"),
    (b"-----begin", "PEM text"),
)
_FORMAT_MAGIC = (
    (b"PK\x03\x04", "zip archive"),
    (b"PK\x05\x06", "empty zip archive"),
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF file (WebP, WAV, AVI)"),
    (b"PAR1", "Parquet file"),
    (b"ARROW1", "Arrow file"),
    (b"7z\xbc\xaf", "7z archive"),
    (b"Rar!", "RAR archive"),
    (b"%PDF", "PDF document"),
    (b"\x7fELF", "program"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x04\x22\x4d\x18", "lz4 data"),
    (b"\x89HDF", "HDF5 file"),
    (b"\x93NUMPY", "NumPy array"),
    (b"SQLite format 3", "SQLite database"),
)

# Bytes of extended headers kept for one member.
LIMIT = 64 << 20
# Bytes of one extended header; a longer one is refused.
LONGEST = 4 << 20
TIMES = frozenset(("mtime", "atime", "ctime", "LIBARCHIVE.creationtime"))
# Stands for all records that change nothing for us.
OTHER = ""

_SPARSE = ("name", "size", "realsize", "map", "major", "minor")
WANTED = frozenset(("path", "size", *(f"GNU.sparse.{word}" for word in _SPARSE)))

_RECORD = re.compile(rb"(\d+) ([^=]+)=")
_LENGTH = re.compile(rb"([0-9]{1,20}) ")


class BadHeader(ValueError):
    """A block that is not a header: tarfile's InvalidHeaderError."""


class Header(NamedTuple):
    """The fields of one header that matter for walking."""

    name: str
    size: int
    type: bytes
    # Its map continues after the header, real size.
    sparse: tuple[bool, int] | None = None


def padded(size: int) -> int:
    """Round up to whole blocks, as tarfile does (towards zero blocks for -511..0)."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


def decode_text(field: bytes) -> str:
    """Decode a NUL-terminated field; bytes that are not UTF-8 become surrogates."""
    end = field.find(0)
    return (field if end < 0 else field[:end]).decode("utf-8", "surrogateescape")


@lru_cache(maxsize=1024)
def decode_number(field: bytes) -> int:
    """Decode an octal or base-256 field. Raises ``BadHeader``."""
    if field[0] in (0o200, 0o377):
        value = int.from_bytes(field[1:], "big")
        return value if field[0] == 0o200 else value - 256 ** (len(field) - 1)
    end = field.find(0)
    try:
        return int((field if end < 0 else field[:end]).decode("ascii").strip() or "0", 8)
    except ValueError:
        raise BadHeader(f"a number field holds {bytes(field)!r}") from None


def checksum_holds(block: bytes, declared: int) -> bool:
    """Compare with the sum of unsigned and, as some old tars wrote, of signed bytes."""
    # The low half of Adler-32 is 1 plus the sum modulo 65521, which 256 bytes cannot reach.
    total = (
        (adler32(block[:256]) & 65535)
        + (adler32(block[256:]) & 65535)
        - 2
        + 256
        - sum(block[148:156])
    )
    if total == declared:
        return True
    return total - 256 * sum(byte > 127 for byte in block[:148] + block[156:]) == declared


@lru_cache(maxsize=1024)
def _check_numbers(fields: bytes) -> None:
    """Decode the numbers that repeat from header to header. Raises ``BadHeader``."""
    for start, end in _REPEATED:
        decode_number(fields[start:end])


def parse_header(block: bytes, *, first: bool = True) -> Header:
    """Parse a full block that is not all zero; ``first``: no extended header precedes it.

    Raises ``BadHeader``.
    """
    if not checksum_holds(block, decode_number(block[148:156])):
        raise BadHeader("wrong checksum")
    _check_numbers(block[100:124] + block[329:345])
    decode_number(block[136:148])
    size = decode_number(block[124:136])
    name, kind, prefix = (
        decode_text(block[:100]),
        block[156:157],
        decode_text(block[345:500]) if block[345] else "",
    )
    sparse = None
    # The oldest format knows no directories.
    if kind == b"\0" and name.endswith("/") and (first or not _KEEPS_TYPE):
        kind = b"5"
    if kind == b"S":
        for at in range(386, 482, 12):
            decode_number(block[at : at + 12])
        sparse = (bool(block[482]), decode_number(block[483:495]))
    if kind == b"5":
        name = name.rstrip("/")
    if prefix and kind not in GNU:
        name = f"{prefix}/{name}"
    return Header(name, size, kind, sparse)


def is_header(block: bytes, *, old: bool = False) -> bool:
    """Return whether a block is a valid header: with the ustar magic, or (``old``) without any."""
    if block[257:262] != b"ustar" and not (old and _CHECKSUM.match(block, 148, 156) and block[0]):
        return False
    try:
        parse_header(block)
    except ValueError:
        return False
    return True


def looks_like(start: bytes) -> str:
    """Return what the first block of a file that is not a tar looks like; "" if that is unknown."""
    for magic, what in _FORMAT_MAGIC:
        if start.startswith(magic):
            return what
    if start[4:8] == b"ftyp":
        return "MP4 or HEIF file"
    if not start or any(byte < 32 and byte not in b"\t\n\f\r" for byte in start):
        return ""
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((what for magic, what in _TEXT_STARTS if head.startswith(magic)), "text")


class RefusedRecord(Exception):
    """A record that is refused here, or that makes tarfile raise an unusual exception.

    That is an exception other than HeaderError.
    """


@lru_cache(maxsize=1)
def is_strict() -> bool:
    """Return whether this Python's tarfile checks the framing of PAX records.

    It does from 3.10.15, 3.11.10, 3.12.6 and 3.13 on.
    """
    return hasattr(tarfile, "_header_length_prefix_re")


@lru_cache(maxsize=1)
def refuses_negative() -> bool:
    """Return whether this Python's tarfile refuses negative sizes.

    It does from 3.10.19, 3.11.14, 3.12.12 and 3.13.6 on.
    """
    try:
        tarfile.TarInfo()._block(-1)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else tells
    except tarfile.HeaderError:
        return True
    return False


def read_records(body: bytes) -> dict[str, str]:
    """Parse a whole extended header, padding included.

    Only the keywords that matter here are distinguished.

    Raises ``BadHeader`` and ``RefusedRecord`` if tarfile raises.
    """
    values: dict[str, str] = {}
    if not is_strict():
        _check_charset(body)
    for keyword, start, end in _strict_records(body) if is_strict() else _loose_records(body):
        name = keyword[:64].decode("utf-8", "surrogateescape")
        if name in WANTED:
            values[name] = body[start:end].decode("utf-8", "surrogateescape")
        else:
            values[name if name in TIMES else OTHER] = ""
    return values


def _loose_records(body: bytes) -> Iterator[tuple[bytes, int, int]]:
    position = 0
    # Overlapping records would cost quadratic time.
    effort = 4 * len(body) + (1 << 20)
    while match := _RECORD.match(body, position):
        try:
            length = int(match[1])
        except ValueError:
            raise RefusedRecord("an extended header has a number that cannot be read") from None
        if length == 0:
            raise BadHeader("an extended header has a record of length 0")
        effort -= match.end() - position + min(length, len(body))
        if effort < 0:
            raise RefusedRecord("an extended header has overlapping records")
        yield match[2], match.end(), position + length - 1
        position += length


def _strict_records(body: bytes) -> Iterator[tuple[bytes, int, int]]:
    position = 0
    while position < len(body) and body[position]:
        match = _LENGTH.match(body, position)
        length = int(match[1]) if match else 0
        end = position + length - 1
        if not match or length < 5 or end >= len(body) or body[end] != 10:
            raise BadHeader("an extended header has a malformed record")
        equals = body.find(b"=", match.end(), end)
        if equals <= match.end():
            raise BadHeader("an extended header has a malformed record")
        yield body[match.end() : equals], equals + 1, end
        position += length


def _check_charset(body: bytes) -> None:
    """Check that hdrcharset is text, wherever it occurs.

    This is what tarfile checks, but in linear time. Raises ``RefusedRecord`` if it is not text.
    """
    at = body.find(b" hdrcharset=")
    while at >= 0:
        end = body.find(b"\n", at + 13)
        if end < 0:
            return
        if body[at - 1 : at].isdigit() and body[at + 12] != 10:
            try:
                body[at + 12 : end].decode("utf-8")
            except UnicodeDecodeError:
                raise RefusedRecord("an extended header names a charset that is not text") from None
            return
        at = body.find(b" hdrcharset=", at + 1)
