"""All views one after another, as one run of bytes: what resharded tars are ranges of."""

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from wdsflow.reshaping.reshard.open_inputs import most_files
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError, local_path
from wdsflow.shards.tar.tar_header import padded
from wdsflow.shards.write_shard import exactly

from .shard_views import Mark, ServedTar, ShardViews, mark_of_file
from .tar_view import Piece

_CLIENTS = 64  # for whom there are open files
_OPEN = 64  # shards that each of them keeps open at most
_HELD = 32 << 20  # bytes of their views that each of them keeps at most, about


class ViewSource(Source):
    """A view, read like a shard. Closes the shard."""

    def __init__(self, served: ServedTar, source: Source) -> None:
        self.url, self.length, self.size = source.url, served.view.size, served.view.size
        self.near = source.fd >= 0 or source.near
        self.weight = served.view.weight  # bytes of memory
        self._served, self._source = served, source

    def parts(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Yield what its bytes from ``start`` to ``stop`` consist of; zeros follow its end."""
        size = self._served.view.size
        yield from self._served.parts(self._source, start, min(stop, size))
        if stop > size:
            yield self, bytes(stop - max(start, size))

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the view; fewer at its end. Raises SourceError, OSError."""
        return joined(self.parts(offset, min(offset + size, self._served.view.size)))

    def changed(self) -> bool:
        """Return whether the shard is another one by now. Raises SourceError, OSError."""
        return self._served.changed(self._source)

    def close(self) -> None:
        """Close the shard."""
        self._source.close()


def joined(parts: Iterable[tuple[Source, Piece]]) -> bytes:
    """Return the bytes of parts. Raises SourceError, OSError."""
    return b"".join(
        part if isinstance(part, bytes) else exactly(source, part[0], part[1] - part[0]) for source, part in parts
    )


def _replaced(url: str) -> SourceError:
    return SourceError("io", f"{url} is not what it was when serve began: stop serve, and start it again")


class ViewFacts(NamedTuple):
    """What a view was when its samples were listed: its bytes, what stands for them, and what tells whether its shard has changed."""

    size: int
    etag: str
    mark: Mark


class JoinedLayout:
    """Where each view begins: each has as many bytes as its blocks. ``near``: all shards are on this machine.

    >>> layout = JoinedLayout([ViewFacts(1000, "a", ()), ViewFacts(2048, "b", ())], near=True)
    >>> layout.starts, list(layout.parts(1000, 1100))
    ([0, 1024, 3072], [(0, 1000, 24), (1, 0, 76)])
    """

    def __init__(self, views: Sequence[ViewFacts], *, near: bool) -> None:
        self.views, self.near = list(views), near
        self.starts = [0, *accumulate(padded(each.size) for each in views)]

    def parts(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield for some of all bytes the view, the place in it, and how many bytes of it there are."""
        while start < stop:
            number = bisect_right(self.starts, start) - 1
            until = min(stop, self.starts[number + 1])
            yield number, start - self.starts[number], until - start
            start = until


class JoinedViews(Source):
    """Reads views that are joined, for one client.

    A view that is not what it was when the layout was made raises SourceError.
    """

    def __init__(self, views: ShardViews, layout: JoinedLayout) -> None:
        self.url, self.near = "the served tars", layout.near
        self.length = self.size = layout.starts[-1]
        self._views, self._layout = views, layout
        self._opened: OrderedDict[int, ViewSource] = OrderedDict()
        self._most, self._weight = max(4, min(_OPEN, most_files() // (2 * _CLIENTS))), 0

    def get(self, number: int) -> ViewSource:
        """Return a view, open until the next call. Raises SourceError, OSError, ValueError."""
        known = self._opened.get(number)
        if known is not None:
            self._opened.move_to_end(number)
            return known
        while self._opened and (len(self._opened) >= self._most or self._weight > _HELD):
            self._close(self._opened.popitem(last=False)[1])
        url = self._views.urls[number]
        try:
            served, source = self._views.open(number)
        except (ValueError, OSError) as error:
            raise SourceError("io", f"{url}: {error}") from None
        if served.etag != self._layout.views[number].etag:
            source.close()
            raise _replaced(url)
        self._opened[number] = found = ViewSource(served, source)
        self._weight += found.weight
        return found

    def parts(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Yield what bytes consist of; a source is open until the next part. Raises as ``get``."""
        for number, at, count in self._layout.parts(start, stop):
            # What a view lacks up to its last block is padding that its shard lacks too.
            yield from self.get(number).parts(at, at + count)

    def refuse_changed(self, numbers: Iterable[int]) -> None:
        """Raise SourceError if one of some views is not what it was: of files at once, of others when they are read."""
        for number in numbers if self.near else ():
            url, mark = self._views.urls[number], self._layout.views[number].mark
            try:
                there = mark_of_file(os.stat(str(local_path(url)))) == mark
            except OSError as error:
                raise SourceError("io", f"{url}: {error.strerror}") from None
            if not there:
                raise _replaced(url)

    def changed(self) -> bool:
        """Return whether a view that was read is another one by now. Raises SourceError, OSError."""
        return any(view.changed() for view in self._opened.values())

    def close(self) -> None:
        """Close all shards."""
        while self._opened:
            self._opened.popitem()[1].close()

    def _close(self, view: ViewSource) -> None:
        self._weight -= view.weight
        with view:
            if view.changed():
                raise SourceChangedError(view.url)
