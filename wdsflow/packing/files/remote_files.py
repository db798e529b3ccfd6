"""Files in an object store."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.source.remote import filesystem
from wdsflow.shards.source.retries import with_retries

from ..unusable import MISSING, OUTSIDE, UNREADABLE, Unusable
from .media_files import FileRef, Opened, Read, Rest, path_of
from .safe_paths import URL, path_below


class RemoteFiles:
    """Files below a url. That they exist is known when they are opened."""

    has_sizes = False
    travels = False

    def __init__(self, root: Shard) -> None:
        self.root = root.rstrip("/")
        self._exact = root.exact.rstrip("/")
        self.passed_over: Counter[str] = Counter()

    def find(self, name: str) -> FileRef:
        """Return the path of a file below the root. Raises Unusable."""
        if name.startswith(f"{self._exact}/"):
            name = name[len(self._exact) + 1 :]
        elif URL.match(name):
            raise Unusable(
                OUTSIDE,
                f"{name!r:.200} is not in {self.root}; --root names the folder that holds all files",
            )
        return [path_below(name, self.root)]

    def open(self, ref: FileRef, most: int) -> Opened:
        """Read the first bytes of a remote file.

        Raises Unusable if it does not exist, SourceError if the store fails.
        """
        url = Shard.url(f"{self._exact}/{path_of(ref)}")
        try:
            source = open_source(url)
        except SourceError as error:
            if error.kind not in ("missing", "denied"):
                raise
            raise Unusable(
                MISSING if error.kind == "missing" else UNREADABLE, error.detail
            ) from None
        with source:
            size = source.length
            if size is None:
                raise Unusable(UNREADABLE, "the server does not say how long it is")
            first = source.read_at(0, most)
        if len(first) == size:
            return Opened(size, first)
        return Opened(
            size, first, Rest(partial(_open_at, url, size, len(first)), size - len(first), url)
        )

    def name_of(self, ref: FileRef) -> str:
        """Return the path of a file below the root."""
        return path_of(ref)

    def names(self) -> Iterator[str]:
        """Yield the names of all files. Raises SourceError."""
        try:
            system, path = filesystem(self._exact)
            paths: list[str] = with_retries(lambda: system.find(path), self.root)
            if not paths:
                # Some stores find nothing where there is no folder, and even no server.
                with_retries(lambda: system.ls(path), self.root)
        except SourceError as error:
            raise SourceError(error.kind, f"{self.root} cannot be listed: {error}") from None
        return (name[len(path.rstrip("/")) + 1 :] for name in paths)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def _open_at(url: Shard, size: int, start: int) -> Iterator[Read]:
    """Open a file, whose first bytes were read, at an offset. Raises SourceError."""
    with open_source(url) as source:
        if source.length != size:
            raise SourceChangedError(f"{url}: pack it again")
        yield _ForwardReader(source, start).read


class _ForwardReader:
    """Reads a source onwards from an offset."""

    def __init__(self, source: Source, at: int) -> None:
        self._source, self._at = source, at

    def read(self, most: int) -> bytes:
        """Return at most so many of the next bytes. Raises SourceError."""
        data = self._source.read_at(self._at, most)
        self._at += len(data)
        return data
