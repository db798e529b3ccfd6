"""PAX records as Python's tarfile reads them."""

import re
import tarfile
from collections.abc import Iterator
from functools import lru_cache

from .tar_header import BadHeader

LIMIT = 64 << 20  # bytes of extended headers kept for one member
LONGEST = 4 << 20  # bytes of one extended header; a longer one is refused
TIMES = frozenset(("mtime", "atime", "ctime", "LIBARCHIVE.creationtime"))
OTHER = ""  # stands for all records that change nothing for us

_SPARSE = ("name", "size", "realsize", "map", "major", "minor")
WANTED = frozenset(("path", "size", *(f"GNU.sparse.{word}" for word in _SPARSE)))

RECORD = re.compile(rb"(\d+) ([^=]+)=")
LENGTH = re.compile(rb"([0-9]{1,20}) ")


class RefusedRecord(Exception):
    """Something at which tarfile raises an exception that is no HeaderError, or that we refuse to follow."""


@lru_cache(maxsize=1)
def is_strict() -> bool:
    """Return whether this Python's tarfile checks the frame of PAX records (from 3.10.15, 3.11.10, 3.12.6, 3.13)."""
    return hasattr(tarfile, "_header_length_prefix_re")


@lru_cache(maxsize=1)
def refuses_negative() -> bool:
    """Return whether this Python's tarfile refuses negative sizes (from 3.10.19, 3.11.14, 3.12.12, 3.13.6)."""
    try:
        tarfile.TarInfo()._block(-1)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else tells
    except tarfile.HeaderError:
        return True
    return False


def read_records(body: bytes) -> dict[str, str]:
    """Parse a whole extended header, padding included; of the keywords only those that matter here are distinguished.

    Raises ``BadHeader`` and ``RefusedRecord`` if tarfile raises.
    """
    values: dict[str, str] = {}
    if not is_strict():
        _check_charset(body)
    for keyword, start, end in records(body):
        name = _text(keyword[:64])
        if name in WANTED:
            values[name] = _text(body[start:end])
        else:
            values[name if name in TIMES else OTHER] = ""
    return values


def records(body: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield keywords, and where their values start and end. Raises ``BadHeader`` and ``RefusedRecord``."""
    return _strict_records(body) if is_strict() else _loose_records(body)


def _loose_records(body: bytes) -> Iterator[tuple[bytes, int, int]]:
    position = 0
    effort = 4 * len(body) + (1 << 20)  # overlapping records would cost quadratic time
    while match := RECORD.match(body, position):
        length = integer(match[1])
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
        match = LENGTH.match(body, position)
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
    """Look for hdrcharset anywhere, as tarfile does, but in linear time: it has to be text, no more."""
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


def integer(digits: bytes | str) -> int:
    """Read a number where tarfile fails with ValueError. Raises ``RefusedRecord``."""
    try:
        return int(digits)
    except ValueError:
        raise RefusedRecord("an extended header has a number that cannot be read") from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
