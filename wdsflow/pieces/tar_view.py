"""Reads pieces as a tar without writing it."""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.source.streams import ForwardSource

from .pieces import END, address, joined, number_of

Opened = Callable[[int], AbstractContextManager[Source]]


class JoinedSource(Source):
    """Numbered sources as one, whose bytes are at ``address(number, offset)``. Some stay open.

    Args:
        opened: opens a source for a block.
        most: how many stay open, if one of a number is among them.
    """

    def __init__(self, opened: Opened, most: Callable[[int], int]) -> None:
        self.url = Shard.stored("several shards")
        self._new, self._most = opened, most
        self._open: OrderedDict[int, tuple[Source, ExitStack]] = OrderedDict()

    def get(self, number: int) -> Source:
        """Return a source, open until the next call. Raises as ``opened``."""
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number][0]
        while self._open and len(self._open) >= self._most(number):
            self._open.popitem(last=False)[1][1].close()
        with ExitStack() as stack:
            source = stack.enter_context(self._new(number))
            self._open[number] = source, stack.pop_all()
        return source

    def parts(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Return the parts of a range of one source; each is open until the next."""
        number = number_of(start)
        base = address(number, 0)
        return self.get(number).parts(start - base, stop - base)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of one source. Raises SourceError, OSError."""
        return self.joined_parts(offset, offset + size)

    def ahead(self, offset: int, size: int) -> None:
        """Announce that these bytes will be read soon."""
        number = number_of(offset)
        self.get(number).ahead(offset - address(number, 0), size)

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1][1].close()


class TarView:
    """Bytes in the order of a new tar, each a byte of a source or a new one. Takes 16 bytes per range.

    >>> view = TarView([(0, 10), b"new", (20, 30)])
    >>> view.size, list(view.parts(8, 15))
    (23, [(8, 10), b'new', (20, 22)])
    """

    __slots__ = ("_data", "_ends", "_origins", "size")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        # Of each piece, in the view.
        self._ends = array("q")
        # Of each piece: its offset in the source; that of new bytes, inverted.
        self._origins = array("q")
        data = bytearray()
        self.size = 0
        for piece in joined(pieces):
            if not isinstance(piece, bytes):
                self._origins.append(piece[0])
                self.size += piece[1] - piece[0]
            elif piece:
                # Joins the new bytes before it.
                if self._origins and self._origins[-1] < 0:
                    self._ends.pop()
                else:
                    self._origins.append(~len(data))
                data += piece
                self.size += len(piece)
            else:
                continue
            self._ends.append(self.size)
        self._data = bytes(data)

    def parts(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the parts of the bytes from ``start`` to ``stop``, which are in the view: ranges of the source, new bytes."""
        number, at = bisect_right(self._ends, start), start
        while at < stop:
            first = self._ends[number - 1] if number else 0
            end, origin = min(self._ends[number], stop), self._origins[number]
            if origin < 0:
                yield self._data[~origin + at - first : ~origin + end - first]
            else:
                yield origin + at - first, origin + end - first
            at = end
            number += 1

    def real(self, offset: int) -> int:
        """Return the place in the source of a byte of a range; of a byte of new ones, the end of the range before."""
        number = bisect_right(self._ends, offset)
        if number < len(self._ends) and self._origins[number] >= 0:
            return self._origins[number] + offset - (self._ends[number - 1] if number else 0)
        while number and self._origins[number - 1] < 0:
            number -= 1
        if not number:
            return 0
        return (
            self._origins[number - 1]
            + self._ends[number - 1]
            - (self._ends[number - 2] if number > 1 else 0)
        )


# Bytes that are taken from a stream at once.
_STEP = 256 << 10


def view_of(source: Source, pieces: Iterable[Piece]) -> Source:
    """Return the tar that ``write_pieces`` would write. Closing it closes the source.

    Where the source can be read in any order only the pieces are read. The rest of a stream is
    skipped: of it, ranges are sorted and do not overlap. A source that ends early raises
    SourceChangedError.
    """
    view = TarView([*pieces, END])
    return ViewSource(view, source) if source.random else _StreamView(view, source)


class ViewSource(Source):
    """A view of a source that can be read in any order."""

    def __init__(self, view: TarView, source: Source) -> None:
        self.url, self.size, self.length = source.url, source.size, view.size
        self.near = source.fd >= 0
        self.view, self._source = view, source

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the view; fewer at its end. Raises SourceError, OSError."""
        before, stop = self._source.bytes_read, min(offset + size, self.length or 0)
        data = self.joined_parts(offset, stop)
        self.bytes_read += self._source.bytes_read - before
        return data

    def inside(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Yield the parts of a range."""
        for part in self.view.parts(start, stop):
            if isinstance(part, bytes):
                yield self, part
            else:
                yield from self._source.parts(*part)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class _StreamView(ForwardSource):
    """A view of a source that can only be read forward."""

    def __init__(self, view: TarView, source: Source) -> None:
        data = _read_on(view, source)
        super().__init__(
            source.url,
            lambda: next(data, b""),
            next(data, b""),
            size=source.size,
            close=source.close,
        )
        # Of the bytes of a member, which may look like one.
        self.compression = None
        self._source = source

    def drain(self) -> None:
        """Copy the fault of the source, which has been read to its end when the view has ended."""
        self.fault = self._source.fault


def _read_on(view: TarView, source: Source) -> Iterator[bytes]:
    for part in view.parts(0, view.size):
        if isinstance(part, bytes):
            yield part
            continue
        at, end = part
        # Over the borders of compressed streams.
        while not source.reaches(at + 1) and source.lift():
            pass
        while at < end:
            size = min(_STEP, end - at)
            data = source.read_at(at, size)
            while len(data) < size and source.lift():
                data = source.read_at(at, size)
            at += len(data)
            yield data
            if len(data) < size:
                yield source.padding(at, end)
                break
    # To its checksum, before it is closed.
    source.drain()
