"""Reads pieces as a tar without writing it."""

from collections.abc import Callable, Iterable, Iterator

from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.source.streams import ForwardSource

from .pieces import END
from .tar_view import TarView

# Bytes that are taken from a stream at once.
_STEP = 256 << 10


def view_of(source: Source, pieces: Iterable[Piece], *, ends: bool = True) -> Source:
    """Return the tar that ``write_pieces`` would write. Closing it closes the source.

    ``ends``: whether it gets the end of a tar; without it the pieces have that of the source, if it
    has one.

    Where the source can be read in any order only the pieces are read. The rest of a stream is
    skipped: of it, ranges are sorted and do not overlap. A source that ends early raises
    SourceChangedError.
    """
    view = TarView([*pieces, END] if ends else list(pieces))
    return ViewSource(view, source) if source.is_seekable else _StreamView(view, source)


def offsets_in_source(pieces: Iterable[Piece]) -> Callable[[int], int]:
    """Return a function from an offset in the tar of these pieces to one in the source.

    See ``TarView.real``.
    """
    return TarView(pieces).source_offset


class ViewSource(Source):
    """A view of a source that can be read in any order."""

    def __init__(self, view: TarView, source: Source) -> None:
        self.url = source.url
        self.size = source.size
        self.length = view.size
        self.has_cheap_reads = source.fd >= 0 or source.has_cheap_reads
        self.view = view
        self._source = source

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the view; fewer at its end. Raises SourceError, OSError."""
        read_before = self._source.bytes_read
        data = self.read_parts(offset, min(offset + size, self.length or 0))
        self.bytes_read += self._source.bytes_read - read_before
        return data

    def parts_inside(self, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
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
        while not source.reaches(at + 1) and source.continue_past_end():
            pass
        while at < end:
            size = min(_STEP, end - at)
            data = source.read_at(at, size)
            while len(data) < size and source.continue_past_end():
                data = source.read_at(at, size)
            at += len(data)
            yield data
            if len(data) < size:
                yield source.padding(at, end)
                break
    # To its checksum, before it is closed.
    source.drain()
