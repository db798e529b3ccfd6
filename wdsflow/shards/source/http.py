"""Shards on web servers.

Every response is compared with the request and with earlier responses.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .base import SourceChangedError, SourceError
from .retries import with_retries

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from aiohttp import ClientResponse
    from yarl import URL

T = TypeVar("T")

_PART = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)")
# Headers that another server must not see.
_SECRET = frozenset(("authorization", "cookie"))
# The first that two responses share decides whether they are of one file.
_MARKS = ("ETag", "Last-Modified")


class HttpFile:
    """A file on a server, in parts or as a stream of bytes, as they are stored.

    fsspec makes the connection, so that its settings hold (headers, credentials, proxies). A
    response with other bytes than requested, or of another file than the first one, is a fault of
    the server: the request is made again, and then it is an error. ``size`` is known after
    ``first``. Where the server redirects to another, that one gets the later requests, without
    credentials: the hub counts requests, and each would take twice as long. ``name`` is the shard,
    for messages. ``marks``: the headers of responses that name a version of the file.
    """

    def __init__(self, system: Any, url: str, name: str) -> None:
        self.url = name
        self._requested_url = url
        # Where the server redirected to.
        self._target: URL | None = None
        self.size: int | None = None
        self._system = system
        self.marks: dict[str, str] = {}

    def first(self, size: int) -> "bytes | HttpStream":
        """Return the first bytes, at most ``size``.

        If the server does not support ranges, returns the whole file as a stream.

        Raises SourceError.
        """
        return with_retries(lambda: self._sync(partial(self._first, size)), self.url)

    def fetch(self, start: int, stop: int) -> bytes:
        """Return these bytes. Raises SourceError."""
        data = b""
        # Servers may send less than was requested.
        while start + len(data) < stop:
            request = partial(self._part, start + len(data), stop)
            data += with_retries(partial(self._sync, request), self.url)
        return data

    def stream(self) -> "HttpStream":
        """Request the whole file. Raises errors of aiohttp, and SourceError."""
        return self._sync(self._whole)

    def _sync(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a coroutine that runs in fsspec's thread."""
        from fsspec.asyn import sync

        result: T = sync(self._system.loop, request)
        return result

    async def _first(self, size: int) -> "bytes | HttpStream":
        response = await self._request({"Range": f"bytes=0-{size - 1}"})
        if response.status == 200:
            return self._streamed(response)
        async with response:
            sent = response.headers.get("Content-Range", "")
            if response.status == 416 and sent.endswith("/0"):
                self.size = 0
                return b""
            data = await self._body(response, 0, size)
        # Parts of a file without an end: "0-99/*".
        return await self._whole() if self.size is None else data

    async def _part(self, start: int, stop: int) -> bytes:
        try:
            async with await self._request({"Range": f"bytes={start}-{stop - 1}"}) as response:
                return await self._body(response, start, stop)
        except BaseException:
            # The next try is redirected again.
            self._target = None
            raise

    async def _whole(self) -> "HttpStream":
        return self._streamed(await self._request({}))

    async def _request(self, headers: dict[str, str]) -> "ClientResponse":
        """Send a request with the encoding ``identity``.

        Bytes compressed for the transfer would not be those that are stored.
        """
        system = self._system
        settings = {"timeout": system.client_kwargs["timeout"], **system.kwargs}
        headers = {
            **(settings.pop("headers", None) or {}),
            "Accept-Encoding": "identity",
            **headers,
        }
        session = await system.set_session()
        get = partial(session.get, auto_decompress=False)
        response: ClientResponse
        target = self._target
        if target is not None:
            # Forgotten if it raises.
            self._target = None
            public = {name: value for name, value in headers.items() if name.lower() not in _SECRET}
            response = await get(target, headers=public, **{**settings, "auth": None})
            if response.status < 400:
                self._target = target
                return response
            # The address has expired.
            response.close()
        url = system.encode_url(self._requested_url)
        response = await get(url, headers=headers, **settings)
        if response.history and response.status < 400:
            self._target = response.url
        return response

    def _streamed(self, response: "ClientResponse") -> "HttpStream":
        try:
            response.raise_for_status()
            if response.status != 200:
                raise SourceError(
                    "io", f"the server answered with status {response.status} instead of the file"
                )
            length = response.headers.get("Content-Length")
            self._check_same_file(response, None if length is None else int(length))
        except BaseException:
            response.close()
            raise
        return HttpStream(self._system.loop, response)

    async def _body(self, response: "ClientResponse", start: int, stop: int) -> bytes:
        """Return the bytes of a part.

        Raises SourceError unless they begin at ``start`` and are from the same file.
        """
        response.raise_for_status()
        if response.status == 200:
            raise SourceError(
                "io", f"the server sent the whole file instead of bytes {start}-{stop - 1}"
            )
        sent = response.headers.get("Content-Range", "")
        part = _PART.fullmatch(sent.strip())
        if part is None or int(part[1]) != start or not start <= int(part[2]) < stop:
            answered = f"with {sent!r}" if sent else "without a Content-Range"
            raise SourceError(
                "io", f"the server answered {answered} to a request for bytes {start}-{stop - 1}"
            )
        self._check_same_file(response, None if part[3] == "*" else int(part[3]))
        data: bytes = await response.read()
        if len(data) != int(part[2]) + 1 - start:
            raise SourceError("io", f"the server announced {sent!r} but sent {len(data):,} bytes")
        return data

    def _check_same_file(self, response: "ClientResponse", size: int | None) -> None:
        """Compare a response with the first one. Raises SourceError."""
        if size is not None and size != self.size is not None:
            raise SourceChangedError(f"it had {self.size:,} bytes, now {size:,}")
        marks = {}
        for name in _MARKS:
            if name in response.headers:
                marks[name] = response.headers[name].removeprefix("W/")
        for name in _MARKS:
            if name in marks and name in self.marks:
                if marks[name] != self.marks[name]:
                    raise SourceChangedError(f"{name} {self.marks[name]}, now {marks[name]}")
                break
        if self.size is None:
            self.size = size
        self.marks = {**marks, **self.marks}


class HttpStream:
    """The body of a response, as a file that can be read forward."""

    def __init__(self, loop: "AbstractEventLoop", response: "ClientResponse") -> None:
        self._loop = loop
        self._response = response

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end.

        Raises errors of aiohttp if the connection breaks.
        """
        from fsspec.asyn import sync

        data: bytes = sync(self._loop, self._response.content.read, size)
        return data

    def close(self) -> None:
        """Close the connection."""
        self._loop.call_soon_threadsafe(self._response.close)
