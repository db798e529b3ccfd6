"""Writes pieces to a file."""

import os
from collections.abc import Iterable
from pathlib import Path

from wdsflow.shards.atomic import atomic_file
from wdsflow.shards.source.base import Piece, Source, SourceChangedError

from .pieces import END, join_adjacent
from .sink import Sink

# Not on Windows.
_CAN_FILL = hasattr(os, "preadv")


def write_pieces(path: Path, source: Source, pieces: Iterable[Piece]) -> int:
    """Write a tar from ranges of a source and new bytes, in order, and return its size in bytes.

    Ranges are those of whole members, headers and padding included. Replaces a file of that name,
    in one step. It ends as a tar ends, with two zero blocks. Raises SourceChangedError if the
    source ends early, OSError if the disk fails, and errors of ``pieces``, also at their end; then
    no new file is left.
    """
    with atomic_file(path) as file:
        sink = Sink(file, path)
        try:
            for piece in join_adjacent(pieces):
                if isinstance(piece, bytes):
                    sink.add(piece)
                else:
                    copy_range(sink, source, *piece)
            sink.add(END)
            sink.write_rest()
        finally:
            sink.close()
    return sink.size


def copy_range(sink: Sink, source: Source, start: int, end: int) -> None:
    """Append a range of a source to a file.

    Raises SourceChangedError if the source ends early, OSError.
    """
    # Nearly always; the same, in less time.
    if source.fd >= 0 and end <= (source.length or 0):
        _fill(sink, source, start, end)
        return
    for origin, part in source.parts(start, end):
        if isinstance(part, bytes):
            sink.add(part)
        else:
            _fill(sink, origin, *part)


def _fill(sink: Sink, source: Source, start: int, end: int) -> None:
    """Read a range of one file into the sink's buffer.

    Raises SourceChangedError if the file ends early, OSError.
    """
    while start < end:
        room = sink.free_buffer(end - start)
        if _CAN_FILL and source.fd >= 0:
            count = os.preadv(source.fd, [room], start)
        else:
            data = source.read_at(start, len(room))
            count = len(data)
            room[:count] = data
        if not count:
            raise SourceChangedError.short(start, end - start)
        sink.advance(count)
        start += count
