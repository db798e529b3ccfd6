"""webdataset opens urls by the reader of this package, in place of a program for each shard.

``webdataset.gopen`` looks up a handler by the scheme of a url. Its own start ``curl`` or ``gsutil``
and read the output: a connection that breaks ends the shard, or is read as its end.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

from wdsflow.shards.shard import Shard

from .remote import RemoteSource, RemoteStream, open_stored

__all__ = ["register_gopen"]

SCHEMES = ("http", "https", "s3", "s3a", "gs", "gcs", "hf")
# Bytes that a read gets ahead; a tar is read in pieces of 10 KB.
_BUFFER = 1 << 20


def register_gopen() -> None:
    """Let webdataset, 0.2 or 1.x, read s3, gs, hf, http and https urls through wdsflow.

    Holds for this process and for those that it forks; call it in each process that is spawned.
    Requests are repeated, a broken connection is resumed at the byte where it broke, and an object
    that changes meanwhile is an error, never mixed with its older bytes. Bytes are those that are
    stored. Writing to a url is left to the handler that was there before. A second call changes
    nothing.

    Raises:
        ImportError: webdataset is not installed.
    """
    from webdataset.gopen import gopen_schemes

    for scheme in SCHEMES:
        handler = gopen_schemes.get(scheme)
        if not isinstance(handler, UrlHandler):
            gopen_schemes[scheme] = UrlHandler(scheme, handler)


def is_registered(scheme: str) -> bool:
    """Return whether webdataset, in this process, opens urls of a scheme by the handler of this module."""
    module = sys.modules.get("webdataset.gopen")
    return module is not None and isinstance(module.gopen_schemes.get(scheme), UrlHandler)


class UrlHandler:
    """Opens urls of one scheme, as ``webdataset.gopen`` calls it.

    Args:
        scheme: of the urls.
        writer: the handler that writes; None if there is none.
    """

    def __init__(self, scheme: str, writer: Callable[..., Any] | None) -> None:
        self._scheme = scheme
        self._writer = writer

    def __call__(self, url: str, mode: str = "rb", bufsize: int = 8192, **settings: Any) -> Any:
        """Return a file that can be read forward. Raises OSError if the url cannot be read."""
        shard = Shard.url(url)
        if mode == "rb":
            return io.BufferedReader(UrlFile(open_stored(shard)), _BUFFER)
        if self._writer is None:
            # The text of a shard shows no secret of its url.
            raise ValueError(
                f"webdataset cannot write {self._scheme}: urls, and wdsflow only reads them: {shard}"
            )
        return self._writer(url, mode, bufsize, **settings)


class UrlFile(io.RawIOBase):
    """The bytes behind a url, as a file that can be read forward."""

    def __init__(self, stored: RemoteSource | RemoteStream) -> None:
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
        if isinstance(self._stored, RemoteSource):
            return self._stored.read_at(self._position, size)
        return self._stored.read(size)
