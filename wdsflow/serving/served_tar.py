"""A tar that is served, and how its ranges are sent."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.shards.source.base import Source, SourceChangedError

if TYPE_CHECKING:
    from aiohttp import ETag
    from aiohttp.typedefs import LooseHeaders
    from aiohttp.web import BaseRequest, Request, StreamResponse


_FORMAT = 1  # of what is served: another would make other bytes of the same shard


@dataclass(frozen=True)
class OpenTar:
    """A tar that is served, open for reading; closes as a context manager.

    Attributes:
        source: its bytes.
        etag: stands for them.
        changed: returns whether a shard that they are made from is another one by now. Raises SourceError, OSError.
    """

    source: Source
    etag: str
    changed: Callable[[], bool]

    @property
    def size(self) -> int:
        """Its bytes."""
        assert self.source.length is not None
        return self.source.length

    def __enter__(self) -> "OpenTar":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()


class Tars(Protocol):
    """The tars of a layer, by their numbers: shards as they are, some of their samples, samples in tars of other sizes.

    Each layer is made of the one below it. Threads may share it. Its functions raise ValueError, such as LedgerError, or
    OSError, such as SourceError, for tars that cannot be served.
    """

    @property
    def urls(self) -> Sequence[str]:
        """What each tar is made of, to be shown."""

    @property
    def filters(self) -> bool:
        """Whether samples may be left out, so that some tars may have none."""

    def prepare(self, number: int) -> None:
        """Decide what a tar consists of, where that is not known."""

    def open(self, number: int) -> OpenTar:
        """Return a tar as it is now."""

    def changed(self, number: int) -> bool:
        """Return whether a shard of a tar is not what it was when it was last opened; False where that takes a request."""

    def count(self, number: int) -> ShardRecord:
        """Return what becomes of its samples."""


def etag_of(*facts: object) -> str:
    """Return what stands for the bytes of a tar; those of ``facts`` that are bytes are taken as they are."""
    from xxhash import xxh3_128

    digest = xxh3_128(repr(_FORMAT).encode())
    for fact in facts:
        digest.update(fact if isinstance(fact, bytes) else repr(fact).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class HttpAnswer:
    """A status, and the bytes of the file from ``start`` to ``stop``; none where the status says so."""

    status: int
    start: int = 0
    stop: int = 0

    def headers(self, size: int, etag: str) -> "LooseHeaders":
        """Return the headers that tell which part this is; ``size``: bytes of the file."""
        found = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        if self.status == 206:
            found["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{size}"
        elif self.status == 416:
            found["Content-Range"] = f"bytes */{size}"
        return found


def answer_to(request: "BaseRequest", size: int, etag: str) -> HttpAnswer:
    """Return what a request gets of a file. Requests for several parts get the whole file, as servers may do."""
    wanted, known = request.if_match, request.if_none_match
    if wanted is not None and not any(_is_any(each) or (each.value == etag and not each.is_weak) for each in wanted):
        return HttpAnswer(412)
    if known is not None and any(_is_any(each) or each.value == etag for each in known):
        return HttpAnswer(304)
    whole = HttpAnswer(200, 0, size)
    if request.method != "GET" or "Range" not in request.headers:
        return whole
    if request.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':  # also a date: no file has one here
        return whole
    try:
        asked = request.http_range
    except ValueError:
        return whole
    start, stop = asked.start or 0, size if asked.stop is None else min(asked.stop, size)
    if asked.stop is None and request.headers["Range"].partition("=")[2].startswith("-"):
        if not asked.start:
            return HttpAnswer(416)
        start = max(0, size + asked.start)
    return HttpAnswer(206, start, stop) if start < size else HttpAnswer(416)


def _is_any(tag: "ETag") -> bool:
    return tag.value == "*"


_STEP = 256 << 10  # bytes in memory for each connection
_LARGE = 1 << 20  # from here on the kernel copies


async def send(
    request: "Request",
    response: "StreamResponse",
    tar: OpenTar,
    ends: tuple[int, int],
    pool: Executor,
) -> None:
    """Send the bytes of a view between two places. The last of them follow only if the shard is still the same.

    Raises SourceError, OSError if it cannot be read or has changed, ConnectionError if the client is gone.
    """
    start, stop = ends
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
    """Yield bytes, ``_STEP`` at a time, and long ranges of local files as they are; ``check`` that bytes are of the view.

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


async def _copy(request: "Request", source: Source, start: int, end: int) -> None:
    """Let the kernel copy from the file to the connection."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    with os.fdopen(source.fd, "rb", buffering=0, closefd=False) as file:
        sent = await asyncio.get_running_loop().sendfile(transport, file, start, end - start)
    if sent != end - start:
        raise SourceChangedError
