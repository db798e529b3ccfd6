"""Serve shards until an interrupt."""

import asyncio
import errno
import resource
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

from .shard_server import Counts, ShardServer, name_of
from .shard_tars import Tars


class CannotListen(Exception):
    """An address that cannot be listened at. ``elsewhere``: no port of it can, as it is not one of this machine."""

    def __init__(self, host: str, port: int, error: OSError | UnicodeError) -> None:
        if isinstance(error, UnicodeError):  # a name with an empty or too long part
            error = socket.gaierror(socket.EAI_NONAME, "it is not a host name")
        self.elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        taken = error.errno == errno.EADDRINUSE
        reason = "is taken" if taken else f"cannot be listened at: {error.strerror or error}"
        super().__init__(f"{host} {reason}" if self.elsewhere else f"port {port} of {host} {reason}")


def serve(
    tars: Tars,
    host: str,
    port: int,
    *,
    started: Callable[[str], object],
    counted: Callable[[str, Counts], object] | None,
    say: Callable[[str], object],
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then close all connections and call the previous handler of the signal.

    Args:
        tars: the tars to serve.
        host: the address to listen on.
        port: its port; 0 takes a free one.
        started: called with the url of the list when requests are answered.
        counted: called with the url and the counts of each shard when they are known; it may raise to end the server.
        say: called with a line for each shard that cannot be served.

    Raises:
        CannotListen: the address is taken, or is not one of this machine.
    """
    with suppress(OSError, ValueError):  # each transfer needs two open files
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = 65_536 if hard == resource.RLIM_INFINITY else hard
        if soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in handlers.items() if callable(handler)]
    try:
        number = asyncio.run(_serve(ShardServer(tars, say), host, port, started, counted, taken))
    finally:
        for each in taken:
            signal.signal(each, handlers[each])
    handler = handlers[number]
    assert callable(handler)
    handler(number, None)


def refuse_taken(host: str, port: int) -> None:
    """Raise CannotListen if an address cannot be listened on now; to be called before long preparations."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        raise CannotListen(host, port, error) from None


async def _serve(
    server: ShardServer,
    host: str,
    port: int,
    started: Callable[[str], object],
    counted: Callable[[str, Counts], object] | None,
    signals: Iterable[signal.Signals],
) -> signal.Signals:
    """Serve until one of these signals arrives, and return it: an exception from a handler would break the event loop."""

    async def run() -> None:
        try:
            url = await server.start(host, port)
        except (OSError, UnicodeError) as error:
            raise CannotListen(host, port, error) from None
        started(url)
        if counted is not None:
            counted(url, await server.counted())

    loop, ended = asyncio.get_running_loop(), asyncio.Queue[signal.Signals]()
    for each in signals:
        loop.add_signal_handler(each, ended.put_nowait, each)
    first, work = asyncio.create_task(ended.get()), asyncio.create_task(run())
    try:
        await asyncio.wait((first, work), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()  # raises its error
        return await first
    finally:
        work.cancel()
        await server.stop()


def pattern(url: str, numbers: Iterable[int]) -> str:
    """Return the urls of served shards for a training command.

    >>> pattern("http://h/", [0, 1, 2, 4])
    'http://h/{000000..000002}.tar::http://h/000004.tar'
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return "::".join(
        url + (name_of(first) if first == last else f"{{{first:06d}..{last:06d}}}.tar") for first, last in runs
    )
