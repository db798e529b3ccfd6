"""Serve shards until an interrupt."""

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from .shard_server import Counts, ShardServer, name_of
from .shard_views import ShardViews


class CannotListen(Exception):
    """An address that cannot be listened at. ``taken``: another program listens there."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.taken = error.errno == errno.EADDRINUSE
        reason = "is taken" if self.taken else f"cannot be listened at: {error.strerror or error}"
        super().__init__(f"port {port} of {host} {reason}")


def serve(
    views: ShardViews,
    host: str,
    port: int,
    *,
    started: Callable[[str], object],
    counted: Callable[[str, Counts], object] | None,
    say: Callable[[str], object],
) -> None:
    """Serve until KeyboardInterrupt, which it raises when all connections are closed.

    Args:
        views: the shards.
        host: the address to listen at.
        port: its port; 0 takes a free one.
        started: gets the url of the list when requests are answered.
        counted: gets the url, and what becomes of the samples of each shard, when that is known.
        say: gets a line for each shard that cannot be served.

    Raises CannotListen if the address is taken, or not one of this machine.
    """
    _allow_many_connections()
    asyncio.run(_serve(ShardServer(views, say), host, port, started, counted))


async def _serve(
    server: ShardServer,
    host: str,
    port: int,
    started: Callable[[str], object],
    counted: Callable[[str, Counts], object] | None,
) -> None:
    try:
        try:
            url = await server.start(host, port)
        except OSError as error:
            raise CannotListen(host, port, error) from None
        started(url)
        if counted is not None:
            counted(url, await server.counted())
        await asyncio.Event().wait()
    finally:
        await server.stop()


def pattern(url: str, numbers: Iterable[int]) -> str:
    """Return what stands for served shards in a training command.

    >>> pattern("http://h/", [0, 1, 2, 4])
    'http://h/{000000..000002}.tar::http://h/000004.tar'
    """
    return "::".join(
        url + (name_of(first) if first == last else f"{{{first:06d}..{last:06d}}}.tar")
        for first, last in _runs(numbers)
    )


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    run: tuple[int, int] | None = None
    for number in numbers:
        if run is not None and number == run[1] + 1:
            run = run[0], number
            continue
        if run is not None:
            yield run
        run = number, number
    if run is not None:
        yield run


def _allow_many_connections() -> None:
    """Raise the limit of open files, of which each transfer needs two."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = 65_536 if hard == resource.RLIM_INFINITY else hard
        if soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
