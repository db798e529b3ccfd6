"""PAX records and the three ways in which they describe sparse files, as Python's tarfile reads them."""

import re
import tarfile
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from .header import BLOCK, BadHeader

Read = Callable[[int, int], bytes]  # (offset, size) -> bytes, short at the end of the archive
Pieces = list[tuple[int, int]]  # of a sparse file: (where in the file, how many bytes)

LIMIT = 64 << 20  # bytes of extended headers kept for one member
MAX_PIECES = 200_000  # of one sparse file
TIMES = frozenset(("mtime", "atime", "ctime", "LIBARCHIVE.creationtime"))
OTHER = ""  # stands for all records that change nothing for us

_WANTED = frozenset(
    ("path", "size", "GNU.sparse.name", "GNU.sparse.size", "GNU.sparse.realsize")
    + ("GNU.sparse.map", "GNU.sparse.major", "GNU.sparse.minor")
)

_RECORD = re.compile(rb"(\d+) ([^=]+)=")
_LENGTH = re.compile(rb"([0-9]{1,20}) ")
_OFFSET = re.compile(rb"(?<=\d) GNU.sparse.offset=(\d+)\n")
_NUMBYTES = re.compile(rb"(?<=\d) GNU.sparse.numbytes=(\d+)\n")


class Refused(Exception):
    """Something at which tarfile raises an exception that is no HeaderError, or that we refuse to follow."""


@lru_cache(maxsize=1)
def is_strict() -> bool:
    """Tell whether this Python's tarfile checks the frame of PAX records (from 3.10.15, 3.11.10, 3.12.6, 3.13)."""
    return hasattr(tarfile, "_header_length_prefix_re")


@lru_cache(maxsize=1)
def refuses_negative() -> bool:
    """Tell whether this Python's tarfile refuses negative sizes (from 3.10.19, 3.11.14, 3.12.12, 3.13.6)."""
    try:
        tarfile.TarInfo()._block(-1)  # type: ignore[attr-defined]
    except tarfile.HeaderError:
        return True
    return False


class Records(NamedTuple):
    """The records of one extended header, in their order."""

    values: dict[str, str]
    sparse: Pieces  # format 0.0


def read_records(body: bytes) -> Records:
    """Parse a whole extended header, padding included. Raises ``BadHeader`` and ``Refused`` where tarfile raises."""
    return _strict_records(body) if is_strict() else _loose_records(body)


def _loose_records(body: bytes) -> Records:
    values: dict[str, str] = {}
    _check_charset(body)
    position = 0
    effort = 4 * len(body) + (1 << 20)  # overlapping records would cost quadratic time
    while match := _RECORD.match(body, position):
        length = _integer(match[1])
        if length == 0:
            raise BadHeader("an extended header has a record of length 0")
        effort -= match.end() - position + min(length, len(body))
        if effort < 0:
            raise Refused("an extended header has overlapping records")
        _keep(values, match[2], body, match.end(), position + length - 1)
        position += length
    if b"sparse" not in body:
        return Records(values, [])
    offsets = [_integer(match[1]) for match in islice(_OFFSET.finditer(body), MAX_PIECES + 1)]
    sizes = [_integer(match[1]) for match in islice(_NUMBYTES.finditer(body), MAX_PIECES + 1)]
    return Records(values, _pieces(offsets, sizes))


def _keep(values: dict[str, str], keyword: bytes, body: bytes, start: int, end: int) -> None:
    name = _text(keyword[:64])
    if name in _WANTED:
        values[name] = _text(body[start:end])
    else:
        values[name if name in TIMES else OTHER] = ""


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
                raise Refused("an extended header names a charset that is not text") from None
            return
        at = body.find(b" hdrcharset=", at + 1)


def _strict_records(body: bytes) -> Records:
    values: dict[str, str] = {}
    offsets: list[int] = []
    sizes: list[int] = []
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
        keyword = body[match.end() : equals]
        _keep(values, keyword, body, equals + 1, end)
        for name, numbers in ((b"GNU.sparse.offset", offsets), (b"GNU.sparse.numbytes", sizes)):
            if keyword == name and len(numbers) <= MAX_PIECES:
                try:
                    numbers.append(int(body[equals + 1 : end].decode()))
                except ValueError:
                    raise BadHeader("a sparse map is no list of numbers") from None
        position += length
    return Records(values, _pieces(offsets, sizes))


def _pieces(offsets: list[int], sizes: list[int]) -> Pieces:
    pieces = list(zip(offsets, sizes, strict=False))
    if len(pieces) > MAX_PIECES:
        raise Refused("the map of a sparse member is too long")
    return pieces


def _integer(digits: bytes | str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise Refused("an extended header has a number that cannot be read") from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def is_sparse(values: dict[str, str]) -> bool:
    """Tell whether a reader of these records replaces the member's map of pieces."""
    return (
        "GNU.sparse.map" in values
        or "GNU.sparse.size" in values
        or (values.get("GNU.sparse.major") == "1" and values.get("GNU.sparse.minor") == "0")
    )


def sparse_map(values: dict[str, str], pieces: Pieces, read: Read, at: int) -> tuple[Pieces, int]:
    """Return the pieces of a sparse member and where its data start; ``at`` is where reading stands.

    Raises ``Refused``.
    """
    if "GNU.sparse.map" in values:  # format 0.1
        if values["GNU.sparse.map"].count(",") > 2 * MAX_PIECES:
            raise Refused("the map of a sparse member is too long")
        numbers = [_integer(number) for number in values["GNU.sparse.map"].split(",")]
        return _pieces(numbers[::2], numbers[1::2]), at
    if "GNU.sparse.size" in values:  # format 0.0
        return pieces, at
    return _map_before_data(read, at)  # format 1.0


def _map_before_data(read: Read, at: int) -> tuple[Pieces, int]:
    buffer = b""
    numbers: list[int] = []
    wanted = 1
    while len(numbers) < wanted:
        if b"\n" not in buffer:
            more = read(at, BLOCK)
            at += len(more)
            buffer += more
        line, newline, buffer = buffer.partition(b"\n")
        if not newline or len(numbers) > 2 * MAX_PIECES:
            raise Refused("the map of a sparse member is damaged")
        numbers.append(_integer(line))
        if len(numbers) == 1:
            wanted = 1 + 2 * numbers[0]
    return _pieces(numbers[1::2], numbers[2::2]), at
