"""webdataset opens urls by the reader of this package, in place of a program for each shard.

``webdataset.gopen`` looks up a handler by the scheme of a url. Its own start ``curl`` or ``gsutil``
and read the output: a connection that breaks ends the shard, or is read as its end.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Any

from wdsflow.memory.sizes import parse_size
from wdsflow.shards.cache.shard_cache import ShardCache, shared_cache
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, local_folder
from wdsflow.shards.source.remote import RemoteStream, open_stored

__all__ = ["register_gopen"]

SCHEMES = ("http", "https", "s3", "s3a", "gs", "gcs", "hf")
# Bytes that a read gets ahead; a tar is read in pieces of 10 KB.
_BUFFER = 1 << 20


def register_gopen(
    *, cache: str | os.PathLike[str] | None = None, cache_size: int | str | None = None
) -> None:
    """Let webdataset, 0.2 or 1.x, read s3, gs, hf, http and https urls through wdsflow.

    Holds for this process and for those that it forks; call it in each process that is spawned.
    Requests are repeated, a broken connection is resumed at the byte where it broke, and an object
    that changes meanwhile is an error, never mixed with its older bytes. Bytes are those that are
    stored. Writing to a url is left to the handler that was there before. A second call changes
    only the cache.

    A cache keeps shards on a local disk, for all processes of this machine. The order of webdataset
    is not known: if there is no room, the shard goes that was used least recently. ``wdsflow.feed``
    knows its order, and keeps what is needed next.

    Args:
        cache: folder on a disk of this machine; it may be that of a feed.
        cache_size: limit of all shards in it, such as "500GiB".

    Raises:
        ImportError: webdataset is not installed.
        ValueError: only one of ``cache`` and ``cache_size`` is given, or the size is none.
    """
    from webdataset.gopen import gopen_schemes

    if (cache is None) != (cache_size is None):
        raise ValueError(
            'a cache is a folder and a size, such as cache="/nvme/wdsflow", cache_size="500GiB"'
        )
    shards = None
    if cache is not None and cache_size is not None:
        shards = shared_cache(local_folder(cache), parse_size(cache_size))
    for scheme in SCHEMES:
        handler = gopen_schemes.get(scheme)
        if isinstance(handler, UrlHandler):
            handler.cache = shards
        else:
            gopen_schemes[scheme] = UrlHandler(scheme, handler, shards)


def is_registered(scheme: str) -> bool:
    """Return whether webdataset opens urls of a scheme by this module's handler.

    The answer is for this process.
    """
    module = sys.modules.get("webdataset.gopen")
    return module is not None and isinstance(module.gopen_schemes.get(scheme), UrlHandler)


class UrlHandler:
    """Opens urls of one scheme, as ``webdataset.gopen`` calls it.

    Args:
        scheme: of the urls.
        writer: the handler that writes; None if there is none.
        cache: keeps shards; None if there is none.
    """

    def __init__(
        self, scheme: str, writer: Callable[..., Any] | None, cache: ShardCache | None = None
    ) -> None:
        self._scheme = scheme
        self._writer = writer
        self.cache = cache

    def __call__(self, url: str, mode: str = "rb", bufsize: int = 8192, **settings: Any) -> Any:
        """Return a file that can be read forward. Raises OSError if the url cannot be read."""
        shard = Shard.url(url)
        if mode == "rb":
            stored = open_stored(shard) if self.cache is None else self.cache.open_stored(shard)
            return io.BufferedReader(UrlFile(stored), _BUFFER)
        if self._writer is None:
            # The text of a shard shows no secret of its url.
            raise ValueError(
                f"webdataset cannot write {self._scheme}: urls, and wdsflow only reads them: {shard}"
            )
        return self._writer(url, mode, bufsize, **settings)


class UrlFile(io.RawIOBase):
    """The bytes behind a url, as a file that can be read forward."""

    def __init__(self, stored: Source | RemoteStream) -> None:
        self._stored = stored
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer, and return how many; 0 at the end. Raises OSError."""
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close the connection."""
        if not self.closed:
            self._stored.close()
        super().close()

    def _next(self, size: int) -> bytes:
        if isinstance(self._stored, RemoteStream):
            return self._stored.read(size)
        return self._stored.read_at(self._position, size)
