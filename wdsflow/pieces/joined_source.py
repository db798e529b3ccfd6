"""Several sources as one."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Piece, Source

from .pieces import address, input_at

Opened = Callable[[int], AbstractContextManager[Source]]


class JoinedSource(Source):
    """Numbered sources as one, whose bytes are at ``address(number, offset)``. Some stay open.

    Args:
        opened: opens a source for a block.
        most: how many stay open, if one of a number is among them.
    """

    def __init__(self, opened: Opened, most: Callable[[int], int]) -> None:
        self.url = Shard.from_text("several shards")
        self._opened = opened
        self._most = most
        # By number, the latest last.
        self._open: OrderedDict[int, tuple[Source, ExitStack]] = OrderedDict()

    def open_input(self, number: int) -> Source:
        """Return a source, open until the next call. Raises as ``opened``."""
        if number in self._open:
            self._open.move_to_end(number)
            source, _ = self._open[number]
            return source
        while self._open and len(self._open) >= self._most(number):
            self._close_one(last=False)
        with ExitStack() as stack:
            source = stack.enter_context(self._opened(number))
            self._open[number] = source, stack.pop_all()
        return source

    def parts(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Return the parts of a range of one source; each is open until the next."""
        number = input_at(start)
        base = address(number, 0)
        return self.open_input(number).parts(start - base, stop - base)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of one source. Raises SourceError, OSError."""
        return self.read_parts(offset, offset + size)

    def prefetch(self, offset: int, size: int) -> None:
        """Announce that these bytes will be read soon."""
        number = input_at(offset)
        self.open_input(number).prefetch(offset - address(number, 0), size)

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._close_one(last=True)

    def _close_one(self, *, last: bool) -> None:
        """Close the latest source, or the one that was used longest ago."""
        _, (_source, stack) = self._open.popitem(last=last)
        stack.close()
