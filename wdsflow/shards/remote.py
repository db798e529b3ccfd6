"""Shards on other machines, through fsspec."""

from collections.abc import Callable
from typing import Any

from .compression import compression_of
from .faults import trying
from .source import FIRST, NEXT, Source
from .streams import ForwardSource

# Bytes asked from a server: at first; on behind what was read, more and more; what may be left out without that this
# counts as a jump. A request takes about as long as half a megabyte.
_START, _LEAST, _MOST, _GAP = 512 << 10, 64 << 10, 4 << 20, 512 << 10
_PIECE = 256 << 10  # of a stream
_NO_RANGES = "range requests"  # fsspec's words where a server sends the whole file instead of a part


class RemoteSource(Source):
    """A shard on a server that sends any part of it.

    As long as bytes are read one behind the other it asks for more and more of them at once; where many are left out
    it asks for what is wanted and no more. A request that fails is made again; see ``faults``.
    """

    def __init__(self, url: str, file: Any) -> None:
        self.url, self._file = url, file
        self.size: int = file.size
        self.length: int = self.size
        self._held, self._from = b"", 0  # bytes, and the offset of the first
        self._ahead = _START // 2

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the shard; fewer at its end. Raises ``SourceError``."""
        end = min(offset + size, self.length)
        if offset >= end:
            return b""
        if offset < self._from or end > self._from + len(self._held):
            self._load(offset, end)
        return self._held[offset - self._from : end - self._from]

    def close(self) -> None:
        """Close the file."""
        self._held = b""
        self._file.close()

    def _load(self, offset: int, end: int) -> None:
        held_to = self._from + len(self._held)
        if self._from <= offset <= held_to + _GAP:
            self._ahead = min(_MOST, max(2 * self._ahead, _LEAST))
        else:
            self._ahead = 0
        kept = self._held[offset - self._from :] if self._from <= offset < held_to else b""
        start = offset + len(kept)
        stop = min(self.length, max(end, start + self._ahead))
        data = trying(lambda: self._fetch(start, stop), self.url)
        self.bytes_read += len(data)
        self._held, self._from = kept + data, offset

    def _fetch(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        data: bytes = self._file.read(stop - start)
        if len(data) != stop - start:
            raise EOFError(f"the server sent {len(data):,} bytes instead of {stop - start:,} from byte {start:,} on")
        return data


class _Stream:
    """A shard on a server that sends all of it, from the start; taken up again where the connection fails."""

    def __init__(self, url: str, open_file: Callable[[], Any]) -> None:
        self._url, self._open = url, open_file
        self._file = open_file()
        self._held, self._at = b"", 0

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end. Raises ``SourceError``."""
        if not self._held:
            self._held = trying(self._more, self._url)
            self._at += len(self._held)
        data, self._held = self._held[:size], self._held[size:]
        return data

    def close(self) -> str:
        """Close the connection."""
        if self._file is not None:
            self._file.close()
        return ""

    def _more(self) -> bytes:
        try:
            if self._file is None:
                self._file = self._open()
                self._skip(self._at)
            data: bytes = self._file.read(_PIECE)
        except Exception:
            self.close()
            self._file = None
            raise
        return data

    def _skip(self, left: int) -> None:
        while left:
            data = self._file.read(min(left, _PIECE))
            if not data:
                raise EOFError(f"the server sent {self._at - left:,} bytes; before, it sent {self._at:,}")
            left -= len(data)


def open_remote(url: str) -> Source:
    """Open a url through fsspec. Raises ``SourceError``."""
    system, path = filesystem(url)

    def opened(**settings: Any) -> Any:
        try:
            return system.open(path, "rb", **settings)
        except TypeError:  # a file system that knows no such settings
            return system.open(path, "rb")

    file = trying(lambda: opened(block_size=_MOST, cache_type="none"), url)
    size = getattr(file, "size", None)
    if size is not None and file.seekable():
        source = RemoteSource(url, file)
        start = source.read_at(0, min(size, _START))[:FIRST]
        if size <= _START or not url.startswith("http") or _sends_parts(file, size, url):
            if compression_of(start) is None:
                return source
            return ForwardSource(url, _onwards(source, len(start)), start, size=size, close=_closing(source))
        source.close()
        stream = _Stream(url, lambda: opened(block_size=0))
    else:
        stream = _Stream(url, lambda: opened(block_size=0))
        file.close()
    return ForwardSource(url, lambda: stream.read(NEXT), _start(stream), size=size, close=stream.close)


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a url, and the path there. Raises ``SourceError``."""
    import fsspec

    found: tuple[Any, str] = trying(lambda: fsspec.core.url_to_fs(url), url)
    return found


def about(url: str) -> dict[str, Any]:
    """Return what a server tells about a file now: its size, when it changed. Raises ``SourceError``."""
    system, path = filesystem(url)

    def ask() -> dict[str, Any]:
        system.invalidate_cache()
        found: dict[str, Any] = system.info(path)
        return found

    return trying(ask, url)


def _start(stream: _Stream) -> bytes:
    start = b""
    while len(start) < FIRST and (more := stream.read(FIRST - len(start))):
        start += more
    return start


def _onwards(source: RemoteSource, at: int) -> Callable[[], bytes]:
    def raw() -> bytes:
        nonlocal at
        data = source.read_at(at, NEXT)
        at += len(data)
        return data

    return raw


def _closing(source: RemoteSource) -> Callable[[], str]:
    def close() -> str:
        source.close()
        return ""

    return close


def _sends_parts(file: Any, size: int, url: str) -> bool:
    """Ask for the last byte: servers that know no parts send the whole file, from its start."""

    def last() -> bool:
        file.seek(size - 1)
        try:
            return len(file.read(1)) == 1
        except ValueError as error:
            if _NO_RANGES in str(error):
                return False
            raise

    return trying(last, url)
