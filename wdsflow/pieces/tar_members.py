"""New members of a tar: headers, contents and padding."""

import tarfile
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import adler32

from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.tar_header import BLOCK

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of the fields of a USTAR header.
_NAME = 100
_PREFIX = 155
# The limit of its size field.
_LARGEST = 0o77777777777
# Owner and mode as webdataset's own writer.
_OWNER = b"bigdata"
# Mode, user and group.
_MODE = b"0000444\0" + b"0000000\0" + b"0000000\0"
_TIME = b"\0" + b"00000000000\0"
_REGULAR_FILE = b"0"
_NO_LINK = bytes(100)
_MAGIC = b"ustar\0" + b"00"
_OWNERS = _OWNER.ljust(32, b"\0") * 2
_DEVICE = b"0000000\0" * 2
_REST = _REGULAR_FILE + _NO_LINK + _MAGIC + _OWNERS + _DEVICE
# The sum of all bytes but name, size and prefix. The checksum itself counts as blanks.
_FIXED_SUM = sum(_MODE + _TIME + _REST) + 8 * ord(" ")
# The prefix, and zeros up to the end of the block.
_END = 167


def header(name: str, size: int, *, extended: bool = False) -> bytes:
    """Return the header of a regular member.

    It has 512 bytes, more if the name or the size does not fit USTAR.

    It depends on name and size only: fixed owner, mode, and time 0.

    ``extended``: repeat name and size in an extended header, which takes precedence over global
    ones.
    """
    raw = name.encode("utf-8", "surrogateescape")
    split = (b"", raw) if len(raw) <= _NAME else _split(raw)
    if split is None or size > _LARGEST or not raw or extended:
        return _long_header(name, size, fits=split is not None, extended=extended)
    prefix, base = split
    digits = b"%011o" % size
    # Of so few bytes the low half of Adler-32 is their sum
    # and 1, in a fraction of the time of sum().
    sum_of_base = (adler32(base + digits) & 0xFFFF) - 1
    checksum = _FIXED_SUM + sum(prefix) + sum_of_base
    fields = (
        base.ljust(_NAME, b"\0"),
        _MODE,
        digits,
        _TIME,
        checksum,
        _REST,
        prefix.ljust(_END, b"\0"),
    )
    return b"%b%b%b%b%06o\0 %b%b" % fields


def member(name: str, data: bytes, *, extended: bool = False) -> bytes:
    """Return a member of a tar: its header, its contents and their padding."""
    padding = bytes(-len(data) % BLOCK)
    return b"".join((header(name, len(data), extended=extended), data, padding))


def moved_member(name: str, start: int, size: int) -> tuple[Piece, Piece, Piece]:
    """Return the pieces of a member that takes its contents from a range of a source.

    The contents are ``size`` bytes from ``start``.
    """
    return header(name, size), (start, start + size), bytes(-size % BLOCK)


def members(names: Sequence[bytes], contents: Sequence[bytes]) -> list[bytes]:
    """Return the results of ``member`` for many names and contents, much faster.

    Names are in UTF-8.
    """
    if not names or not all(0 < len(name) <= _NAME for name in names):
        results: list[bytes] = []
        for name, data in zip(names, contents, strict=True):
            results.append(member(name.decode("utf-8", "surrogateescape"), data))
        return results
    headers = _headers(names, [len(data) for data in contents])
    results = []
    start = 0
    for data in contents:
        block = headers[start : start + BLOCK]
        padding = bytes(-len(data) % BLOCK)
        results.append(b"".join((block, data, padding)))
        start += BLOCK
    return results


def _headers(names: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """Return the headers of members with short names, one after the other."""
    import numpy as np

    # A header without name and size, for each member.
    template = np.frombuffer(header("0", 0), np.uint8)
    headers = np.tile(template, (len(names), 1))
    headers[:, :_NAME] = np.array(names, f"S{_NAME}").view(np.uint8).reshape(-1, _NAME)
    headers[:, 124:135] = _octal_digits(sizes, 11)
    # The checksum is that of a header with blanks in its place.
    headers[:, 148:156] = ord(" ")
    checksums = headers.sum(1, dtype=np.int64)
    headers[:, 148:154] = _octal_digits(checksums, 6)
    headers[:, 154:156] = template[154:156]
    return headers.tobytes()


def _octal_digits(numbers: "Sequence[int] | NDArray[np.int64]", count: int) -> "NDArray[np.int64]":
    """Return the last ``count`` octal digits of each number, as ASCII."""
    import numpy as np

    column = np.asarray(numbers, np.int64)[:, None]
    bits = np.arange(3 * (count - 1), -1, -3)
    digits: NDArray[np.int64] = (column >> bits & 7) + ord("0")
    return digits


def _long_header(name: str, size: int, *, fits: bool, extended: bool) -> bytes:
    """Return a header with extended ones before it. ``fits``: the name fits the header itself."""
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o444
    info.mtime = 0
    info.uname = _OWNER.decode()
    info.gname = _OWNER.decode()
    if extended:
        info.pax_headers = {"path": name, "size": str(size)}
    # DALI knows long names as GNU tar writes them, and no PAX headers; all others know both.
    if not fits and size <= _LARGEST and not extended:
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Split a long name at a slash so that both halves fit their fields."""
    cut = name.rfind(b"/", 0, _PREFIX + 1)
    if cut < 1:
        return None
    prefix, base = name[:cut], name[cut + 1 :]
    return (prefix, base) if 0 < len(base) <= _NAME else None
