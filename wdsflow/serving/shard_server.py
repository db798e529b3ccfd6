"""Tars over HTTP, computed from byte ranges of shards; nothing is written."""

import asyncio
import contextlib
import html
import ipaddress
import json
import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.shards.source.base import Source, SourceChangedError
from wdsflow.text.shell import escape

from .shard_tars import OpenTar, Tars

T = TypeVar("T")
Counts = dict[int, ShardRecord | str]  # of each shard; the reason if it cannot be served

_THREADS = 8  # that compute views and read from other machines
_PATIENCE = 0.5  # seconds that open connections have to end
_REFUSED = (ValueError, OSError)  # what a ledger or a shard may raise
_METHODS = ("GET", "HEAD")
_TAR = "application/x-tar"


_LOG = logging.getLogger("wdsflow.serving")
_LOG.addFilter(  # a malformed request is a fault of the client
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)


def name_of(number: int) -> str:
    """Return the name of a served shard.

    >>> name_of(7)
    '000007.tar'
    """
    return f"{number:06d}.tar"


class ShardServer:
    """Serves tars under ``/000000.tar`` and so on, their list, ``/sizes.json`` and ``/__len__``.

    Args:
        tars: the tars to serve.
        say: called with a line for each shard that cannot be served.
    """

    def __init__(self, tars: Tars, say: Callable[[str], object]) -> None:
        self._tars, self._say, self._said = tars, say, set[str]()
        self._pool = ThreadPoolExecutor(_THREADS, "wdsflow-serve")
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._counts: asyncio.Task[Counts] | None = None
        self._runner: web.AppRunner | None = None
        self._hosts: set[str] | None = None  # names in requests that are answered, None for any

    async def start(self, host: str, port: int) -> str:
        """Start serving, and return the url of the list. Raises OSError if the address is taken, or not of this machine."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._list)
        app.router.add_get("/sizes.json", self._sizes)
        app.router.add_get("/__len__", self._sizes)
        app.router.add_get(r"/{number:[0-9]{6,9}}.tar", self._shard)
        self._runner = web.AppRunner(app, access_log=None, logger=_LOG, shutdown_timeout=_PATIENCE)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        await site.start()
        address = self._runner.addresses[0]
        if is_loopback(host):
            self._hosts = {"localhost", "127.0.0.1", "[::1]", _in_url(host), _in_url(address[0])}
        return f"http://{_in_url(host)}:{address[1]}/"

    async def counted(self) -> Counts:
        """Return the counts of each shard's samples, or the reason why it cannot be served."""
        if self._counts is None:
            self._counts = asyncio.create_task(self._count())
        return await asyncio.shield(self._counts)

    async def stop(self) -> None:
        """End all connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for task in (*self._opening.values(), self._counts):
            if task is not None:
                task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _count(self) -> Counts:
        counts: Counts = {}
        for number in range(len(self._tars.urls)):
            try:
                counts[number] = await self._in_thread(self._tars.count, number)
            except _REFUSED as error:
                counts[number] = self._failed(number, error)
        return counts

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def _failed(self, number: int, error: Exception) -> str:
        line = f"{escape(self._tars.urls[number], 500)}: {escape(str(error), 2000)}"
        if line not in self._said and len(self._said) < 1000:  # a reader may retry without end
            self._said.add(line)
            self._say(line)
        return line

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer only requests for an address of this machine: web pages may reach it by other host names (DNS rebinding)."""
        name = re.sub(r":[0-9]*$", "", request.host).lower()
        if self._hosts is not None and name not in self._hosts and not _is_loopback_ip(name):
            return web.Response(status=421, text="this server is for programs of this machine\n")
        if request.method not in _METHODS:  # also of a path that does not exist
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        try:
            return await handler(request)
        except ConnectionError:  # the client has hung up: not a fault of the server
            return web.Response()

    async def _shard(self, request: web.Request) -> web.StreamResponse:
        number = int(request.match_info["number"])
        if number >= len(self._tars.urls) or request.path != f"/{name_of(number)}":
            return web.Response(status=404, text="no such shard\n")
        try:
            tar = await self._opened(number)
        except _REFUSED as error:
            return web.Response(status=500, text=f"{self._failed(number, error)}\n")
        with tar:
            answer = answer_to(request, tar.size, tar.etag)
            response = web.StreamResponse(status=answer.status, headers=answer.headers(tar.size, tar.etag))
            if answer.status in (200, 206):
                response.content_type = _TAR
                response.content_length = answer.stop - answer.start
            elif answer.status != 304:
                response.content_length = 0
            await response.prepare(request)
            if request.method == "GET" and answer.stop > answer.start:
                try:
                    await _send(request, response, tar, answer, self._pool)
                except _REFUSED as error:  # it has changed: the client must not take the received part for the whole
                    if not isinstance(error, ConnectionError):  # of a client that hangs up
                        self._failed(number, error)
                    if request.transport is not None:
                        request.transport.abort()
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
            return response

    async def _opened(self, number: int) -> OpenTar:
        """Return a tar; its contents are computed once, also if several clients wait for it."""
        task = self._opening.get(number)
        if task is None:
            task = self._opening[number] = asyncio.create_task(self._in_thread(self._tars.prepare, number))
            task.add_done_callback(lambda done: self._done(number, done))
        await asyncio.shield(task)
        return await self._in_thread(self._tars.open, number)

    def _done(self, number: int, task: asyncio.Task[None]) -> None:
        del self._opening[number]
        if not task.cancelled():
            task.exception()  # also if no client waits for it any more

    async def _list(self, _: web.Request) -> web.Response:
        """List the shards that have samples, and those that cannot be read: leaving these out would hide the loss."""
        listed = list(range(len(self._tars.urls)))
        if self._tars.filters:
            listed = [
                number for number, found in (await self.counted()).items() if isinstance(found, str) or found.kept
            ]
        rows = "\n".join(
            f'<li><a href="{name_of(number)}">{name_of(number)}</a> {html.escape(escape(self._tars.urls[number], 500))}</li>'
            for number in listed
        )
        page = f"<!DOCTYPE html>\n<meta charset=utf-8>\n<title>wdsflow serve</title>\n<ul>\n{rows}\n</ul>\n"
        return web.Response(text=page, content_type="text/html")

    async def _sizes(self, request: web.Request) -> web.Response:
        """Answer with the samples of each shard, or their sum; with an error if a shard cannot be counted."""
        counts = await self.counted()
        if bad := [found for found in counts.values() if isinstance(found, str)]:
            return web.Response(status=500, text="\n".join(bad) + "\n")
        records = {name_of(number): found for number, found in counts.items() if isinstance(found, ShardRecord)}
        sizes = {name: found.counted for name, found in records.items() if found.kept}
        if request.path == "/__len__":
            return web.Response(text=f"{sum(sizes.values())}\n")
        return web.Response(text=json.dumps(sizes, indent=1) + "\n", content_type="application/json")


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    return host == "localhost" or _is_loopback_ip(host)


def _is_loopback_ip(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    """Return an address as in a url. ``::1`` becomes ``localhost``: OpenCLIP splits sources at ``::``.

    An unspecified address (all interfaces) becomes the host name, under which other machines can reach it.
    """
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            return socket.gethostname()
    return "localhost" if host == "::1" else f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class HttpAnswer:
    """A status, and the range of the file to send, from ``start`` to ``stop``; empty if the status has no body."""

    status: int
    start: int = 0
    stop: int = 0

    def headers(self, size: int, etag: str) -> dict[str, str]:
        """Return the headers that describe this part; ``size``: bytes of the file."""
        found = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        if self.status == 206:
            found["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{size}"
        elif self.status == 416:
            found["Content-Range"] = f"bytes */{size}"
        return found


def answer_to(request: web.BaseRequest, size: int, etag: str) -> HttpAnswer:
    """Return the answer to a request for a file. A request for several ranges gets the whole file, as HTTP permits."""
    wanted, known = request.if_match, request.if_none_match
    if wanted is not None and not any(
        each.value == "*" or (each.value == etag and not each.is_weak) for each in wanted
    ):
        return HttpAnswer(412)
    if known is not None and any(each.value in ("*", etag) for each in known):
        return HttpAnswer(304)
    whole = HttpAnswer(200, 0, size)
    if request.method != "GET" or "Range" not in request.headers:
        return whole
    if request.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':  # also if it is a date: these files have none
        return whole
    try:
        wanted_range = request.http_range
    except ValueError:
        return whole
    start, stop = wanted_range.start or 0, size if wanted_range.stop is None else min(wanted_range.stop, size)
    if wanted_range.stop is None and request.headers["Range"].partition("=")[2].startswith("-"):
        if not wanted_range.start:
            return HttpAnswer(416)
        start = max(0, size + wanted_range.start)
    return HttpAnswer(206, start, stop) if start < size else HttpAnswer(416)


_STEP = 256 << 10  # bytes in memory for each connection
_LARGE = 1 << 20  # ranges of at least that many bytes are copied by the kernel


async def _send(
    request: web.Request, response: web.StreamResponse, tar: OpenTar, answer: HttpAnswer, pool: Executor
) -> None:
    """Send the bytes of an answer. The last chunk is sent only if the shard has not changed.

    Raises SourceError, OSError if it cannot be read or has changed, ConnectionError if the client has hung up.
    """
    start, stop = answer.start, answer.stop
    last = max(start, stop - _STEP)
    loop, here = asyncio.get_running_loop(), tar.source.fd >= 0 or tar.source.near
    for low, high in ((start, last), (last, stop)):
        chunks = _chunks(tar, low, high, check=here or high == stop)
        while chunk := next(chunks, None) if here else await loop.run_in_executor(pool, next, chunks, None):
            if isinstance(chunk, bytes):
                await response.write(chunk)
            else:
                await _copy(request, *chunk)


def _chunks(tar: OpenTar, start: int, stop: int, *, check: bool) -> Iterator[bytes | tuple[Source, int, int]]:
    """Yield bytes, ``_STEP`` at a time, and long ranges of local files as ranges. ``check``: that the shard has not changed.

    Raises SourceChangedError.
    """
    held = bytearray()

    def checked() -> bytes:
        if check and tar.changed():
            raise SourceChangedError
        data = bytes(held)
        held.clear()
        return data

    for origin, part in tar.source.parts(start, stop):
        at, end = (0, len(part)) if isinstance(part, bytes) else part
        if not isinstance(part, bytes) and end - at >= _LARGE and origin.fd >= 0:
            if held:
                yield checked()
            yield origin, at, end
            continue
        while at < end:
            until = min(end, at + _STEP - len(held))
            held += part[at:until] if isinstance(part, bytes) else origin.exactly(at, until - at)
            at = until
            if len(held) == _STEP:
                yield checked()
    if held:
        yield checked()


async def _copy(request: web.Request, source: Source, start: int, end: int) -> None:
    """Let the kernel copy from the file to the connection."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has hung up")
    with os.fdopen(source.fd, "rb", buffering=0, closefd=False) as file:
        sent = await asyncio.get_running_loop().sendfile(transport, file, start, end - start)
    if sent != end - start:
        raise SourceChangedError
