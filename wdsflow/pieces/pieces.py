"""Pieces of outputs: ranges of a source, merged, joined, and with their global headers."""

from collections.abc import Iterable, Iterator, Sequence

from wdsflow.shards.source.base import Piece, Range
from wdsflow.shards.tar.tar_header import BLOCK

# The end of a tar.
END = bytes(2 * BLOCK)
# Of an address: an input has at most 16 TiB.
OFFSET_BITS = 44


def address(number: int, offset: int) -> int:
    """Return the offset in ``JoinedSource`` of a byte of a numbered input.

    >>> [input_at(address(3, 0)), input_at(address(3, 2**44 - 1))], address(0, 512)
    ([3, 3], 512)
    """
    return number << OFFSET_BITS | offset


def input_at(location: int) -> int:
    """Return the input of a byte of ``JoinedSource``, by its ``address``."""
    return location >> OFFSET_BITS


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Sort ranges and join those that touch or overlap.

    >>> merge_ranges([(10, 20), (0, 5), (5, 10), (30, 40)])
    [(0, 20), (30, 40)]
    """
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def with_headers(samples: Sequence[Range], headers: Iterable[Range]) -> list[Range]:
    """Return ranges of samples with the global headers before them, in the order of reading.

    A header without a sample after it is left out: tarfile would take that for a cut tar.

    >>> with_headers([(20, 30)], [(10, 15), (40, 50)]), with_headers([], [(10, 15)])
    ([(10, 15), (20, 30)], [])
    """
    last = max((start for start, _ in samples), default=0)
    return merge_ranges([*samples, *(header for header in headers if header[0] < last)])


def piece_length(piece: Piece) -> int:
    """Return how many bytes a piece has."""
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


def join_adjacent(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Join ranges that follow each other, and leave out those that are empty."""
    start = end = 0
    for piece in pieces:
        if not isinstance(piece, bytes) and piece[0] == end:
            end = piece[1]
            continue
        if end > start:
            yield start, end
        start, end = (end, end) if isinstance(piece, bytes) else piece
        if isinstance(piece, bytes):
            yield piece
    if end > start:
        yield start, end
