"""Ranges of a tar, seen as a tar of their own: what copying them would write, without writing it."""

from bisect import bisect_right
from collections.abc import Sequence

from wdsflow.shards.source.base import Source, SourceChangedError
from wdsflow.shards.source.streams import ForwardSource
from wdsflow.shards.tar.tar_header import BLOCK

from .tar_sample import Range

_END = 2 * BLOCK  # zero bytes
_STEP = 256 << 10  # bytes that are taken from a stream at once


def view_of(source: Source, ranges: Sequence[Range]) -> Source:
    """Return the tar that consists of ranges of another, ended as ``write_pieces`` ends it. Closing it closes the source.

    ``ranges`` are those of whole members, sorted, and do not overlap. Where the source can be read in any order only
    these ranges are read; the rest of a stream is skipped. A source that ends early raises SourceChangedError.
    """
    if source.random:
        return RangeView(source, ranges)
    return _StreamView(source, _Stream(source, ranges))


class _StreamView(ForwardSource):
    """Ranges of a source that can only be read forward."""

    def __init__(self, source: Source, stream: "_Stream") -> None:
        super().__init__(source.url, stream.read, stream.read(), size=source.size, close=stream.close)
        self.compression = None  # of the bytes of a member, which may look like one
        self._source = source

    def drain(self) -> None:
        """Take over the fault of the source; all of that was read when the view has ended."""
        self.fault = self._source.fault


class RangeView(Source):
    """Ranges of a source that can be read in any order; ``real`` returns where a byte of the view is in the source."""

    def __init__(self, source: Source, ranges: Sequence[Range]) -> None:
        self.url, self.size, self._source = source.url, source.size, source
        self.near = source.fd >= 0
        self._starts = [start for start, _ in ranges]
        self._places: list[int] = []  # of the ranges in the view
        at = 0
        for start, end in ranges:
            self._places.append(at)
            at += end - start
        self._content = at
        self.length: int = at + _END
        self._last = max((end for _, end in ranges), default=0)

    def real(self, offset: int) -> int:
        """Return the offset in the source of a byte of the view, at most where the content ends."""
        index = bisect_right(self._places, offset) - 1
        return self._starts[index] + offset - self._places[index] if index >= 0 else 0

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the view; fewer at its end. Raises ``OSError``."""
        end = min(offset + size, self._content)
        index = bisect_right(self._places, offset) - 1
        pieces: list[bytes] = []
        at = offset
        while at < end:
            stop = self._places[index + 1] if index + 1 < len(self._places) else self._content
            pieces.append(self._piece(self._starts[index] + at - self._places[index], min(end, stop) - at))
            at = min(end, stop)
            index += 1
        zeros = min(offset + size, self.length) - max(at, offset)
        return b"".join(pieces) + bytes(max(0, zeros)) if zeros > 0 or len(pieces) != 1 else pieces[0]

    def _piece(self, start: int, size: int) -> bytes:
        before = self._source.bytes_read
        data = self._source.read_at(start, size)
        self.bytes_read += self._source.bytes_read - before
        if len(data) < size:
            data += _padding(start + len(data), size - len(data), self._last)
        return data

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class _Stream:
    """The ranges of a source that can only be read forward, one after the other."""

    def __init__(self, source: Source, ranges: Sequence[Range]) -> None:
        self._source, self._ranges = source, iter(ranges)
        self._last = max((end for _, end in ranges), default=0)
        self._at, self._end = next(self._ranges, (0, 0))
        self._left = _END

    def read(self) -> bytes:
        """Return some bytes of the ranges, then zeros, then nothing."""
        while self._at >= self._end:
            self._at, self._end = next(self._ranges, (-1, -1))
            if self._at < 0:
                self._at = self._end = 0
                left, self._left = self._left, 0
                self._source.drain()  # to its checksum, before it is closed
                return bytes(left)
        size = min(_STEP, self._end - self._at)
        self._skip_to(self._at)
        data = self._source.read_at(self._at, size)
        while len(data) < size and self._source.lift():
            data = self._source.read_at(self._at, size)
        if len(data) < size:
            data += _padding(self._at + len(data), size - len(data), self._last)
        self._at += size
        return data

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _skip_to(self, offset: int) -> None:
        """Let a stream of several compressed streams come as far as ``offset``."""
        while not self._source.reaches(offset + 1) and self._source.lift():
            pass


def _padding(at: int, missing: int, last: int) -> bytes:
    """Return the zeros that a tar without its last padding lacks. Raises SourceChangedError if it lacks more."""
    if missing >= BLOCK or at + missing != last:
        raise SourceChangedError(f"it ends at byte {at:,}, {missing:,} too early")
    return bytes(missing)
