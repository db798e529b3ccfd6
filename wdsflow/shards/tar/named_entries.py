"""The way in between: an extended header with a long or foreign name, or times, before a plain member.

Quicker than ``entry.py`` because it knows this one shape only, and gives up at anything else.
"""

import re
from functools import lru_cache
from typing import NamedTuple
from zlib import adler32

from .tar_header import BLOCK, BadHeader, number, text

_LONGEST = 16 << 10  # bytes of the extended header
_RECORD = re.compile(rb"([1-9]\d{0,5}) ([^=\n]+)=")
_TIMES = frozenset((b"mtime", b"atime", b"ctime", b"LIBARCHIVE.creationtime"))


class NamedEntries(NamedTuple):
    """A plain member behind one extended header; positions are within the window."""

    name: str
    size: int
    data: int
    only_times: bool


def read_named(window: bytes, at: int) -> NamedEntries | None:
    """Read the extended header and the member at ``at``; None if they want care or reach out of the window."""
    extended = window[at : at + BLOCK]
    body_at = at + BLOCK
    length = _sound_size(extended)
    header_at = body_at + (length + BLOCK - 1) // BLOCK * BLOCK
    header = window[header_at : header_at + BLOCK]
    if not 0 < length <= _LONGEST or len(header) < BLOCK or header[156:157] != b"0":
        return None
    size = _sound_size(header)
    if size < 0:
        return None
    body = window[body_at:header_at]
    if extended[156:157] == b"L":
        return NamedEntries(text(body), size, header_at + BLOCK, only_times=False)
    keywords = set()
    name = None
    end = 0
    while end < length:
        match = _RECORD.match(body, end)
        if match is None:
            return None
        end += int(match[1])
        if not match.end() < end <= length or body[end - 1] != 10:
            return None
        keyword = match[2]
        if keyword == b"path":
            name = body[match.end() : end - 1].decode("utf-8", "surrogateescape").rstrip("/")
        elif keyword == b"size" or keyword.startswith(b"GNU."):
            return None
        keywords.add(keyword)
    if b"hdrcharset" in body or body.count(0, length) != len(body) - length:
        return None
    if name is None:
        if header[345]:
            return None
        name = text(header[:100])
    return NamedEntries(name, size, header_at + BLOCK, only_times=keywords <= _TIMES)


def _sound_size(header: bytes) -> int:
    """Return the size field of a header; -1 where the header is not beyond doubt."""
    if len(header) < BLOCK or not _numbers_hold(header[100:124] + header[136:148] + header[329:345]):
        return -1
    try:
        checksum, size = number(header[148:156]), number(header[124:136])
    except BadHeader:
        return -1
    # The low half of Adler-32 is 1 plus the sum modulo 65521, which 256 bytes cannot reach.
    total = (adler32(header[:256]) & 65535) + (adler32(header[256:]) & 65535) - 2 + 256 - sum(header[148:156])
    return size if total == checksum else -1


@lru_cache(maxsize=1024)
def _numbers_hold(fields: bytes) -> bool:
    """Return whether mode, owner, group, time and device can be read."""
    try:
        for start, end in ((0, 8), (8, 16), (16, 24), (24, 36), (36, 44), (44, 52)):
            number(fields[start:end])
    except BadHeader:
        return False
    return True
