"""Bytes in the order of a new tar, without the tar."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from wdsflow.shards.source.base import Piece

from .pieces import join_adjacent


class TarView:
    """Bytes in the order of a new tar, taken from ranges of a source or new.

    Takes 16 bytes of memory per range.

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
        for piece in join_adjacent(pieces):
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
        """Yield the parts of the bytes from ``start`` to ``stop``: source ranges and new bytes.

        ``start`` and ``stop`` are offsets in the view.
        """
        number = bisect_right(self._ends, start)
        position = start
        while position < stop:
            first = self._start_of(number)
            end = min(self._ends[number], stop)
            origin = self._origins[number]
            if origin < 0:
                yield self._data[~origin + position - first : ~origin + end - first]
            else:
                yield origin + position - first, origin + end - first
            position = end
            number += 1

    def source_offset(self, offset: int) -> int:
        """Return the source offset of a byte in the view.

        For a new byte, this is the end of the range before it.
        """
        number = bisect_right(self._ends, offset)
        if number < len(self._ends) and self._origins[number] >= 0:
            return self._origins[number] + offset - self._start_of(number)
        while number and self._origins[number - 1] < 0:
            number -= 1
        if not number:
            return 0
        last = number - 1
        return self._origins[last] + self._ends[last] - self._start_of(last)

    def _start_of(self, number: int) -> int:
        """Return where a piece begins in the view."""
        return self._ends[number - 1] if number else 0
