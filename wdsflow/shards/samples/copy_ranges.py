"""Copy ranges of one tar into another; the new tar is complete or does not exist."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wdsflow.shards.atomic import writing
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.shards.write_shard import ShortSourceError, copy_range

from .file_sink import Sink
from .tar_sample import Range


def merge(ranges: Iterable[Range]) -> list[Range]:
    """Sort ranges and join those that touch or overlap.

    >>> merge([(10, 20), (0, 5), (5, 10), (30, 40)])
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
    return merge([*samples, *(header for header in headers if header[0] < last)])


def write_pieces(path: Path, source: Source, pieces: Iterable[Range | bytes], *, closed: bool = True) -> int:
    """Write a tar that consists of ranges of another and of bytes, in the order given, and return its size in bytes.

    Ranges are those of whole members, headers and padding included. If the source lacks the last padding, it is added.
    Replaces a file of that name, in one step. ``closed``: end it as a tar ends, with two zero blocks. Raises
    ShortSourceError if the source ends early, OSError if the disk fails; then no file is left.
    """
    with tar_of_ranges(path, closed=closed) as tar:
        tar.copy_all(source, pieces)
    return tar.size


@contextmanager
def tar_of_ranges(path: Path, *, closed: bool = True) -> Iterator["RangeWriter"]:
    """Give the writer of a tar that gets its name, whole and on the disk, when the block has ended.

    ``closed``: end it as a tar ends. Raises as ``write_pieces``; an error of the block leaves no new file.
    """
    with writing(path) as file:
        tar = RangeWriter(file, path)
        try:
            yield tar
            if closed:
                tar.add(bytes(2 * BLOCK))
            tar.end()
        finally:
            tar.close()


class RangeWriter(Sink):
    """Appends ranges of tars, of any number of them, and bytes."""

    def copy(self, source: Source, start: int, end: int) -> None:
        """Append a range of a tar; if the tar lacks the last padding, it is added. Raises ShortSourceError, OSError."""
        length, missing = source.length, 0
        if length is not None and end > length:
            missing = end - length
            if missing >= BLOCK:
                raise ShortSourceError(f"the source ends at byte {length}, {missing} too early")
        copy_range(self, source, start, end - missing)
        if missing:
            self.add(bytes(missing))

    def copy_all(self, source: Source, pieces: Iterable[Range | bytes]) -> None:
        """Append ranges of a tar and bytes, in order. Raises ShortSourceError, OSError."""
        for piece in joined(pieces):
            if isinstance(piece, bytes):
                self.add(piece)
            else:
                self.copy(source, *piece)


def joined(pieces: Iterable[Range | bytes]) -> Iterator[Range | bytes]:
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
