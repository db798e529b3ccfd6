"""Numbered sources as one."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from wdsflow.shards.source.base import Piece, Source

from .pieces import address, number_of

Opened = Callable[[int], AbstractContextManager[Source]]
_HELD = 32 << 20  # bytes of memory that open sources hold at most, about


class JoinedSource(Source):
    """Numbered sources as one, whose bytes are at ``address(number, offset)``. Some stay open, as long as there is room.

    Args:
        opened: opens a source for a block.
        most: how many stay open, if one of a number is among them.
    """

    def __init__(self, opened: Opened, most: Callable[[int], int]) -> None:
        self.url = "several shards"
        self._new, self._most = opened, most
        self._open: OrderedDict[int, tuple[Source, ExitStack]] = OrderedDict()
        self._weight = 0

    def get(self, number: int) -> Source:
        """Return a source, open until the next call. Raises as ``opened``."""
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number][0]
        while self._open and (len(self._open) >= self._most(number) or self._weight > _HELD):
            self.evict(next(iter(self._open)))
        with ExitStack() as stack:
            source = stack.enter_context(self._new(number))
            self._open[number] = source, stack.pop_all()
        self._weight += source.weight
        return source

    def parts(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Return what bytes of one source consist of; each is open until the next is asked for."""
        number = number_of(start)
        base = address(number, 0)
        return self.get(number).parts(start - base, stop - base)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of one source. Raises SourceError, OSError."""
        return self.joined_parts(offset, offset + size)

    def ahead(self, offset: int, size: int) -> None:
        """Say that these bytes will be wanted soon."""
        number = number_of(offset)
        self.get(number).ahead(offset - address(number, 0), size)

    def evict(self, number: int) -> None:
        """Close a source to make room for another."""
        source, stack = self._open.pop(number)
        self._weight -= source.weight
        stack.close()

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1][1].close()
