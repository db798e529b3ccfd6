"""A tar that exists only as pieces: which of them make up any part of it."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from wdsflow.shards.source.base import Piece

from .pieces import joined


class TarView:
    """Bytes in the order of a new tar, each a byte of a source or a new one. Takes 16 bytes per range.

    >>> view = TarView([(0, 10), b"new", (20, 30)])
    >>> view.size, list(view.parts(8, 15))
    (23, [(8, 10), b'new', (20, 22)])
    """

    __slots__ = ("_data", "_ends", "_origins", "size")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._ends = array("q")  # of each piece, in the view
        self._origins = array("q")  # of each piece: its offset in the source; that of new bytes, inverted
        data = bytearray()
        self.size = 0
        for piece in joined(pieces):
            if not isinstance(piece, bytes):
                self._origins.append(piece[0])
                self.size += piece[1] - piece[0]
            elif piece:
                if self._origins and self._origins[-1] < 0:  # joins the new bytes before it
                    self._ends.pop()
                else:
                    self._origins.append(~len(data))
                data += piece
                self.size += len(piece)
            else:
                continue
            self._ends.append(self.size)
        self._data = bytes(data)

    @property
    def weight(self) -> int:
        """Bytes of memory that it takes, about."""
        return 200 + 16 * len(self._ends) + len(self._data)

    @property
    def reach(self) -> int:
        """The end of the range that reaches furthest into the source."""
        starts = (self._ends[at - 1] if at else 0 for at in range(len(self._ends)))
        each = zip(self._origins, starts, self._ends, strict=True)
        return max((origin + end - start for origin, start, end in each if origin >= 0), default=0)

    def marks(self) -> Iterator[bytes]:
        """Yield what makes this view of a source another than other views of it."""
        yield self._ends.tobytes()
        yield self._origins.tobytes()
        yield self._data

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
        return self._origins[number - 1] + self._ends[number - 1] - (self._ends[number - 2] if number > 1 else 0)
