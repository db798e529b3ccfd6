"""A walk over a tar as NVIDIA DALI makes it: with libtar, which differs from Python's tarfile in many ways.

It knows GNU long names, but neither PAX records nor numbers in base 256. It skips the contents of every kind of entry,
takes an entry of unknown kind for a regular file where its mode says so, continues after a single zero block, and raises
for anything that is not a header.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .tar_header import BLOCK, Read, checksum_holds, text

_OCTAL = re.compile(rb"[ \t-\r]*([+-]?)([0-7]+)")
_PLAIN_SIZE, _PLAIN_CHECKSUM = re.compile(rb" *[0-7]+ *[\0 ]\Z"), re.compile(rb" *[0-7]+[\0 ]")
_SIZE, _MODE, _CHECKSUM = 124, 100, 148  # where these numbers begin
_LONGEST = 1 << 20  # bytes of a name
_UP = re.compile(r"(?<![^/])\.\./")
_PATIENCE = 100  # times that a size leads backwards; DALI would run in circles
_FORMAT, _REGULAR = 0o170000, 0o100000  # of a mode: what kind of file it is


class CorruptTar(Exception):
    """A place at which DALI raises, which ends it before the first sample of any shard."""

    def __init__(self, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.offset, self.detail = offset, detail


class LibtarFile(NamedTuple):
    """One regular file as DALI finds it."""

    name: str  # UTF-8, other bytes as surrogates
    size: int  # bytes; may be negative
    data: int  # offset of the contents


def octal(block: bytes, start: int, bits: int = 32) -> int:
    """Read a signed number as libtar does, with C's ``%o``: on to the first other byte, and 0 where there is no digit."""
    match = _OCTAL.match(block, start)
    if match is None:
        return 0
    value = min(int(match[2], 8), (1 << 64) - 1)
    value = (-value if match[1] == b"-" else value) & (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def is_plain_header(header: bytes) -> bool:
    """Return whether libtar, wids and tarfile read the same from a header: octal numbers, no prefix, no rare kind."""
    return (
        not header[345]
        and header[156:157] != b"7"
        and _PLAIN_SIZE.match(header[_SIZE : _SIZE + 12]) is not None
        and _PLAIN_CHECKSUM.match(header[_CHECKSUM : _CHECKSUM + 8]) is not None
    )


def skips(window: bytes, at: int) -> bool:
    """Return whether libtar steps over a sound PAX header as tarfile does; False where that is not plain to see."""
    size, checksum = at + _SIZE, at + _CHECKSUM
    return (
        window[at] > 0
        and window[at + _MODE : at + _MODE + 3] == b"000"  # no kind of file
        and window[at + _MODE + 7] in b"\0 "
        and window[size : size + 11].isdigit()
        and window[size + 11] in b"\0 "
        and window[checksum : checksum + 6].isdigit()
        and window[checksum + 6] in b"\0 "
    )


def regular_files(read: Read, reaches: Callable[[int], bool]) -> Iterator[LibtarFile]:
    """Yield the regular files of a tar in order. Raises ``CorruptTar``.

    Args:
        read: (offset, size) -> bytes, fewer at the end of the tar.
        reaches: says whether the tar has so many bytes.
    """
    at = back = 0
    while True:
        header, data, name = _entry(read, reaches, at)
        if header is None:
            return
        size = octal(header, _SIZE, 64)
        at = data + (size + BLOCK - 1) // BLOCK * BLOCK
        back += at < data
        if at < 0 or back > _PATIENCE:
            raise CorruptTar(data, f"a member claims {size:,} bytes")
        if at > data and not reaches(at):
            raise CorruptTar(data, "the file ends inside the contents of a member")
        if _is_regular(header):
            yield LibtarFile(_safer(_name(header) if name is None else name), size, data)


def _entry(read: Read, reaches: Callable[[int], bool], at: int) -> tuple[bytes | None, int, str | None]:
    """Return the header of an entry (None at the end), where its contents begin, and its GNU long name."""
    name = None
    header, at = _header(read, at)
    if header is None:
        return None, at, None
    for kind in (b"K", b"L"):  # in this order, each once
        if header[156:157] != kind:
            continue
        length = octal(header, _SIZE, 64)
        if length <= 0:
            raise CorruptTar(at - BLOCK, "a long name has no length")
        blocks = -(-length // BLOCK) * BLOCK
        if not reaches(at + blocks):
            raise CorruptTar(at, "the file ends inside a long name")
        if kind == b"L":
            name = text(read(at, min(blocks, _LONGEST)))
        header, at = _header(read, at + blocks)
        if header is None:
            raise CorruptTar(at, "the archive ends after a long name")
    return header, at, name


def _header(read: Read, at: int) -> tuple[bytes | None, int]:
    """Return the next header, None at the end of the archive, and the offset after it."""
    zeros = 0
    while True:
        block = read(at, BLOCK)
        if not block:
            return None, at
        if len(block) < BLOCK:
            raise CorruptTar(at, "the file ends inside a block")
        at += BLOCK
        if block[0]:
            break
        zeros += 1
        if zeros == 2:
            return None, at
    if not checksum_holds(block, octal(block, _CHECKSUM)):
        raise CorruptTar(at - BLOCK, "a header has a wrong checksum")
    return block, at


def _is_regular(header: bytes) -> bool:
    kind = header[156:157]
    return kind in (b"0", b"\0", b"7") or (kind != b"1" and octal(header, _MODE) & _FORMAT == _REGULAR)


def _name(header: bytes) -> str:
    name, prefix = text(header[:100]), text(header[345:500]) if header[257:262] == b"ustar" else ""
    return f"{prefix}/{name}" if prefix else name


def _safer(name: str) -> str:
    """Return a name without what leads out of a folder: slashes at the front, all up to the last ``../``.

    >>> _safer("/data/1.jpg"), _safer("a/../../b/1.jpg"), _safer("/")
    ('data/1.jpg', 'b/1.jpg', '.')
    """
    name = name.lstrip("/")
    return name[max((up.end() for up in _UP.finditer(name)), default=0) :] or "."
