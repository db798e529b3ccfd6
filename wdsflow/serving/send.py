"""Sends bytes of a view: long ranges of a local file by the kernel, all else through a buffer of bounded size."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from wdsflow.shards.source.base import Source, SourceChangedError

from .served_tar import OpenTar

if TYPE_CHECKING:
    from aiohttp.web import Request, StreamResponse

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
