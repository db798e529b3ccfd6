"""Sends bytes of a view: long ranges of a local file by the kernel, all else through a buffer of bounded size."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from wdsflow.shards.source.base import Source, SourceChangedError
from wdsflow.shards.write_shard import exactly

from .shard_views import ServedTar
from .tar_view import Piece

if TYPE_CHECKING:
    from aiohttp.web import Request, StreamResponse

_STEP = 256 << 10  # bytes in memory for each connection
_LARGE = 1 << 20  # from here on the kernel copies


async def send(
    request: "Request",
    response: "StreamResponse",
    served: ServedTar,
    source: Source,
    ends: tuple[int, int],
    pool: Executor,
) -> None:
    """Send the bytes of a view between two places. The last of them follow only if the shard is still the same.

    Raises SourceError, OSError if it cannot be read or has changed, ConnectionError if the client is gone.
    """
    start, stop = ends
    last = max(start, stop - _STEP)
    loop = asyncio.get_running_loop()
    if source.fd < 0:
        for step in _steps(served.view.parts(start, last), large=stop):
            await response.write(await loop.run_in_executor(pool, _read, source, step))
        for step in _steps(served.view.parts(last, stop), large=stop):
            await response.write(await loop.run_in_executor(pool, _checked, source, step, served))
        return
    for parts in (served.view.parts(start, last), served.view.parts(last, stop)):
        for step in _steps(parts, large=_LARGE):
            first = step[0]
            if isinstance(first, bytes) or first[1] - first[0] < _LARGE:
                await response.write(_checked(source, step, served))
            else:
                await _copy(request, source, *first)


def _steps(parts: Iterable[Piece], large: int) -> Iterator[list[Piece]]:
    """Yield parts that are read together, of ``_STEP`` bytes; ranges of at least ``large`` bytes alone."""
    held: list[Piece] = []
    size = 0
    for part in parts:
        start, end = (0, len(part)) if isinstance(part, bytes) else part
        if not isinstance(part, bytes) and end - start >= large:
            if held:
                yield held
            yield [part]
            held, size = [], 0
            continue
        while start < end:
            until = min(end, start + _STEP - size)
            held.append(part[start:until] if isinstance(part, bytes) else (start, until))
            size += until - start
            start = until
            if size == _STEP:
                yield held
                held, size = [], 0
    if held:
        yield held


def _read(source: Source, step: Sequence[Piece]) -> bytes:
    return b"".join(part if isinstance(part, bytes) else exactly(source, part[0], part[1] - part[0]) for part in step)


def _checked(source: Source, step: Sequence[Piece], served: ServedTar) -> bytes:
    """Return the bytes if they are those of the view. Raises SourceChangedError."""
    data = _read(source, step)
    if served.changed(source):
        raise SourceChangedError
    return data


async def _copy(request: "Request", source: Source, start: int, end: int) -> None:
    """Let the kernel copy from the file to the connection."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    with os.fdopen(source.fd, "rb", buffering=0, closefd=False) as file:
        sent = await asyncio.get_running_loop().sendfile(transport, file, start, end - start)
    if sent != end - start:
        raise SourceChangedError
