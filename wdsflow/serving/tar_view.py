"""A tar that exists only as ranges of another and new bytes."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from wdsflow.shards.samples.copy_ranges import joined
from wdsflow.shards.samples.tar_sample import Range
from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.shards.write_shard import ShortSourceError

Piece = Range | bytes


class TarView:
    """Bytes in the order of a new tar, each a byte of a shard or a new one. Takes 16 bytes per range.

    >>> view = TarView([(0, 10), b"new", (20, 30)])
    >>> view.size, list(view.parts(8, 15))
    (23, [(8, 10), b'new', (20, 22)])
    """

    __slots__ = ("_data", "_ends", "_origins", "size")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._ends = array("q")  # of each piece, in the view
        self._origins = array("q")  # of each piece: its offset in the shard; that of new bytes, inverted
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

    def marks(self) -> Iterator[bytes]:
        """Yield what makes this view of a shard another than other views of it."""
        yield self._ends.tobytes()
        yield self._origins.tobytes()
        yield self._data

    def parts(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the parts of the bytes from ``start`` to ``stop``, which are in the view: ranges of the shard, new bytes."""
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


def whole_tar(pieces: Iterable[Piece], length: int) -> Iterator[Piece]:
    """Yield the parts of a tar that ends as a tar ends, as ``write_pieces`` writes them.

    ``length``: bytes of the shard. If it lacks the last padding, that is added. Raises ShortSourceError if it is shorter.

    >>> list(whole_tar([(0, 1024)], 1000)) == [(0, 1000), bytes(24), bytes(1024)]
    True
    """
    for piece in pieces:
        missing = 0 if isinstance(piece, bytes) else max(0, piece[1] - length)
        if missing >= BLOCK:
            raise ShortSourceError(f"the source ends at byte {length}, {missing} too early")
        if missing and not isinstance(piece, bytes):
            yield piece[0], length
            yield bytes(missing)
        else:
            yield piece
    yield bytes(2 * BLOCK)
