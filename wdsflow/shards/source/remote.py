"""Shards on other machines, through fsspec."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any
from zlib import crc32

from wdsflow.shards.numbered_names import natural_order
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import SUFFIXES

from .base import FIRST, NEXT, Source, SourceChangedError, SourceError
from .decompress import compression_of
from .http import HttpFile, HttpStream
from .hub import SCHEME, HubUrl
from .limited_systems import limited
from .retries import with_retries
from .streams import ForwardSource

# Bytes requested from a server: at first; after bytes that were read, at least and at most; skipped
# without that it counts as a jump. A request takes about as long as half a megabyte.
_START, _LEAST, _MOST, _GAP = 512 << 10, 64 << 10, 8 << 20, 512 << 10
# Bytes of a request from which on the next one is sent ahead.
_STEADY = 1 << 20
# Of a stream.
_PIECE = 256 << 10
_File = IO[bytes] | HttpStream
# First byte, byte after the last; raises SourceError.
Fetch = Callable[[int, int], bytes]

# What file systems know of a file that changes with its bytes, the most reliable first.
MARKS = (
    "etag ETag sha256 xet_hash blob_id md5Hash crc32c generation "
    "LastModified Last-Modified last_modified mtime"
).split()

# A question mark begins the query of a url.
_GLOB = re.compile(r"[*\[]")


class RemoteSource(Source):
    """A shard on a server that sends any part of it.

    While bytes are read in sequence it requests more and more of them at once, and the next ones in
    a thread before they are wanted; after a jump it requests only the wanted bytes. A request that
    fails is repeated; see ``with_retries``.

    ``version``: what names the version of its bytes, see ``version_of``; "" if the server does not
    say.
    """

    version = ""

    def __init__(
        self, url: Shard, size: int, fetch: Fetch, close: Callable[[], object], held: bytes = b""
    ) -> None:
        self.url, self._fetch, self._close = url, fetch, close
        self.size: int = size
        self.length: int = size
        # Bytes, and the offset of the first.
        self._held, self._from = held, 0
        self._thread = ThreadPoolExecutor(1)
        # First byte of a request sent ahead, and its answer.
        self._next: tuple[int, Future[bytes]] | None = None
        self.bytes_read = len(held)
        self._ahead = len(held) or _START // 2

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
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._close()

    def _load(self, offset: int, end: int) -> None:
        held_to = self._from + len(self._held)
        if self._from <= offset <= held_to + _GAP:
            self._ahead = min(_MOST, max(2 * self._ahead, _LEAST))
        else:
            self._ahead = 0
        kept = self._held[offset - self._from :] if self._from <= offset < held_to else b""
        start = offset + len(kept)
        data = self._requested_ahead(start)
        if start + len(data) < end:
            data += self._fetch(start + len(data), min(self.length, max(end, start + self._ahead)))
        after = start + len(data)
        self.bytes_read += len(data)
        self._held, self._from = kept + data, offset
        if self._ahead >= _STEADY and after < self.length:
            self._next = (
                after,
                self._thread.submit(self._fetch, after, min(self.length, after + self._ahead)),
            )

    def _requested_ahead(self, start: int) -> bytes:
        """Return bytes from ``start`` on if they were requested ahead. Raises ``SourceError``."""
        if self._next is None:
            return b""
        (first, answer), self._next = self._next, None
        # Also if the bytes are useless now: one request at a time.
        data = answer.result()
        skipped = start - first if first <= start else len(data)
        self.bytes_read += min(skipped, len(data))
        return data[skipped:]


class RemoteStream:
    """A shard on a server that sends only whole files, from the start.

    It is resumed after the connection fails.
    """

    def __init__(
        self,
        url: Shard,
        open_file: Callable[[], _File],
        size: int | None,
        file: _File | None = None,
    ) -> None:
        self.url, self.size = url, size
        self._open, self._file = open_file, file
        self._held, self._at, self._sum = b"", 0, 0
        self._failed: SourceError | None = None

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes; fewer only at the end. Raises ``SourceError``, and then always."""
        if self._failed is not None:
            raise self._failed
        try:
            data = self.peek(size)
        except SourceError as error:
            self._failed = error
            raise
        self._held = self._held[len(data) :]
        return data

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes without consuming them; fewer only at the end.

        Raises ``SourceError``.
        """
        while len(self._held) < size and (data := with_retries(self._more, self.url)):
            self._at += len(data)
            self._sum = crc32(data, self._sum)
            self._held += data
        return self._held[:size]

    def close(self) -> None:
        """Close the connection."""
        if self._file is not None:
            self._file.close()

    def _more(self) -> bytes:
        try:
            if self._file is None:
                self._file = self._open()
                self._skip(self._file, self._at)
            return self._file.read(_PIECE)
        except Exception:
            self.close()
            self._file = None
            raise

    def _skip(self, file: _File, left: int) -> None:
        seen = 0
        while left:
            data = file.read(min(left, _PIECE))
            if not data:
                raise EOFError(
                    f"the server sent {self._at - left:,} bytes; before, it sent {self._at:,}"
                )
            left -= len(data)
            seen = crc32(data, seen)
        if seen != self._sum:
            raise SourceChangedError("it starts with other bytes than before")


def open_remote(shard: Shard) -> Source:
    """Open a url through fsspec, decompressed if necessary.

    Raises ``SourceError``.
    """
    return as_source(open_stored(shard))


def open_stored(shard: Shard) -> RemoteSource | RemoteStream:
    """Open a url for its bytes as stored.

    The first bytes have arrived when it returns. Raises ``SourceError``.
    """
    system, path = _file_of(shard)
    if "https" in system.protocol:
        return _open_http(system, shard, path)
    if hasattr(system, "local_expiry_check"):
        # s3fs compares each answer's ETag: some servers ignore If-Match.
        system.local_expiry_check = True
    try:
        return _open_file(system, shard, path)
    except SourceError as error:
        if error.kind != "missing" and not isinstance(error, SourceChangedError):
            raise
        # The folder was listed before the file came, or before it was replaced.
        system.invalidate_cache()
        return _open_file(system, shard, path)


def version_of(shard: Shard) -> tuple[int | None, str]:
    """Return the current size of a url's file and the version of its bytes, in one request.

    Raises ``SourceError``. The size is None if the server does not report it. The version
    identifies the bytes.

    It is an ETag, a hash or a time, whichever the server gives; "" if it gives none.
    """
    system, path = _file_of(shard)
    if "https" not in system.protocol:
        facts = _facts(system, path, shard)
        size = facts.get("size")
        return size if isinstance(size, int) else None, _version(facts)
    file = HttpFile(system, path, shard)
    start = file.first(1)
    if not isinstance(start, bytes):
        start.close()
    return file.size, _version(file.marks)


def _version(facts: Mapping[str, object]) -> str:
    return next((f"{mark} {facts[mark]}" for mark in MARKS if facts.get(mark) is not None), "")


def _file_of(shard: Shard) -> tuple[Any, str]:
    """Return the file system of a url, and the path in it.

    For the hub, this is the file system of the web. Raises ``SourceError``.
    """
    url = shard.exact
    return (
        with_retries(HubUrl.parse(url).web_file, shard)
        if url.startswith(SCHEME)
        else filesystem(url)
    )


def _open_file(system: Any, shard: Shard, path: str) -> RemoteSource | RemoteStream:
    """Open a file of a file system of fsspec, and read its first bytes."""

    def opened(**settings: object) -> IO[bytes]:
        try:
            file: IO[bytes] = system.open(path, "rb", **settings)
        except TypeError:
            # A file system that knows no such settings.
            file = system.open(path, "rb")
        return file

    file = with_retries(lambda: opened(block_size=_MOST, cache_type="none"), shard)
    size = getattr(file, "size", None)
    if size is not None and file.seekable():
        source = RemoteSource(shard, size, _parts_of(file, shard), file.close)
        # What a file has looked up by itself.
        source.version = _version(getattr(file, "details", None) or {})
        with _closed_on_error(source):
            source.read_at(0, FIRST)
        return source
    file.close()
    stream = RemoteStream(shard, lambda: opened(block_size=0), size)
    with _closed_on_error(stream):
        stream.peek(FIRST)
    return stream


def _open_http(system: object, shard: Shard, path: str) -> RemoteSource | RemoteStream:
    file = HttpFile(system, path, shard)
    start = file.first(_START)
    if isinstance(start, bytes):
        source = RemoteSource(shard, file.size or 0, file.fetch, lambda: None, start)
        source.version = _version(file.marks)
        return source
    stream = RemoteStream(shard, file.stream, file.size, start)
    with _closed_on_error(stream):
        stream.peek(FIRST)
    return stream


def _parts_of(file: IO[bytes], shard: Shard) -> Fetch:
    # A request that was given up may still move the position in the file.
    lock = threading.Lock()

    def fetch(start: int, stop: int) -> bytes:
        with lock:
            file.seek(start)
            data = file.read(stop - start)
        if len(data) != stop - start:
            raise EOFError(
                f"the server sent {len(data):,} bytes instead of {stop - start:,} from byte {start:,} on"
            )
        return data

    return lambda start, stop: with_retries(lambda: fetch(start, stop), shard, stop - start)


def _decompressed(source: Source) -> Source:
    """Return the source, or its contents if it is compressed."""
    with _closed_on_error(source):
        start = source.read_at(0, FIRST)
    if compression_of(start) is None:
        return source
    at = len(start)

    def raw() -> bytes:
        nonlocal at
        data = source.read_at(at, NEXT)
        at += len(data)
        return data

    return ForwardSource(source.url, raw, start, size=source.size, close=source.close)


def as_source(stored: Source | RemoteStream) -> Source:
    """Return a source of stored bytes, or of their decompressed contents.

    Raises ``SourceError``.
    """
    return _stream_source(stored) if isinstance(stored, RemoteStream) else _decompressed(stored)


def _stream_source(stream: RemoteStream) -> Source:
    with _closed_on_error(stream):
        start = stream.read(FIRST)
    return ForwardSource(
        stream.url, lambda: stream.read(NEXT), start, size=stream.size, close=stream.close
    )


@contextmanager
def _closed_on_error(source: Source | RemoteStream) -> Iterator[None]:
    """Close a source of which nothing can be read."""
    try:
        yield
    except BaseException:
        source.close()
        raise


def pinned_url(url: str) -> str:
    """Return a hub url at the commit of its revision, and any other url unchanged.

    Raises ``SourceError``.
    """
    return with_retries(lambda: HubUrl.parse(url).pinned(), url) if url.startswith(SCHEME) else url


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a url, and the path there. Raises ``SourceError``.

    Two colons are part of a name: fsspec would open what follows them as a file system of its own.
    """
    import fsspec

    first, colons, rest = url.partition("::")
    system, path = with_retries(lambda: fsspec.core.url_to_fs(first), url)
    return limited(system), f"{path}{colons}{rest}"


def file_facts(shard: Shard) -> dict[str, object]:
    """Return a server's current facts about a file: its size and when it changed.

    Raises ``SourceError``.
    """
    url = shard.exact
    if url.startswith(SCHEME):
        return with_retries(lambda: HubUrl.parse(url).file_facts(), shard)
    return _facts(*filesystem(url), shard)


def _facts(system: Any, path: str, shard: Shard) -> dict[str, object]:
    def ask() -> dict[str, object]:
        system.invalidate_cache()
        facts: dict[str, object] = system.info(path)
        return facts

    return with_retries(ask, shard)


def is_listing(url: str) -> bool:
    """Return whether a url is a glob, or a folder on a server that may list it.

    Web servers list a folder by a page of links.

    >>> [is_listing(url) for url in ("s3://b/*.tar", "gs://b/a/", "s3://b/a.tar?versionId=*", "https://h/*.tar")]
    [True, True, False, True]
    >>> is_listing("http://[::1]/a.tar")
    False
    """
    path = url.partition("?")[0]
    if re.match("https?:", url):
        return path.endswith("/") or "*" in path.rpartition("/")[2]
    return path.endswith("/") or _GLOB.search(path) is not None


def list_shards(url: str) -> list[Shard]:
    """Return the shards in a folder, or those that match a glob, in natural order.

    Raises ``SourceError``.
    """
    system, path = filesystem(url)
    pattern = f"{path.rstrip('/')}/*" if url.endswith("/") else path

    def ask() -> list[str]:
        system.invalidate_cache()
        found = system.glob(pattern, detail=True)
        return [name for name, about in found.items() if about.get("type") != "directory"]

    files = with_retries(ask, url)
    tars = [name for name in files if name.lower().endswith(SUFFIXES)]
    chosen = tars if url.endswith("/") else tars or files
    return [Shard.url(system.unstrip_protocol(name)) for name in sorted(chosen, key=natural_order)]
