"""Global PAX headers, which hold for all members after them."""

from collections.abc import Iterator

from wdsflow.shards.source.base import Range, Source
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, padded, parse_header

# Bytes that are searched.
_LARGEST_GAP = 1 << 20


def global_headers(source: Source, start: int, end: int) -> Iterator[Range]:
    """Yield the ranges of global PAX headers in bytes that belong to no member."""
    at = start
    end = min(end, start + _LARGEST_GAP)
    while at + BLOCK <= end:
        try:
            header = parse_header(source.read_at(at, BLOCK), first=True)
        except BadHeader:
            at += BLOCK
            continue
        size = BLOCK + padded(max(header.size, 0))
        if header.type == b"g" and at + size <= end:
            yield at, at + size
        at += size
