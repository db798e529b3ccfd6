"""The line between two processes: pickled values travel on it, in both directions."""

import os
import pickle
import select
import struct
import threading
from collections.abc import Callable
from typing import IO, Any, Protocol

_SIZE = struct.Struct("<Q")


class Connected(Protocol):
    """One end of a socket or pipe."""

    def fileno(self) -> int:
        """Return its descriptor."""


def send(line: Connected, value: object) -> None:
    """Write a value; arrays are not copied. Raises OSError if the other side has ended."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, 5, buffer_callback=buffers.append)
    parts = [memoryview(data)]
    parts += [buffer.raw() for buffer in buffers]
    head = _SIZE.pack(len(parts))
    for part in parts:
        head += _SIZE.pack(part.nbytes)
    fd = line.fileno()
    for part in (memoryview(head), *parts):
        start = 0
        while start < part.nbytes:
            start += os.write(fd, part[start:])


def receive(line: Connected) -> Any:
    """Read a value that a process of ours wrote. Raises EOFError if the other side has ended."""
    fd = line.fileno()
    (count,) = _SIZE.unpack(_read(fd, _SIZE.size))
    sizes = [size for (size,) in _SIZE.iter_unpack(_read(fd, count * _SIZE.size))]
    data = _read(fd, sizes[0])
    rest = memoryview(_read(fd, sum(sizes[1:])))
    buffers = []
    start = 0
    for size in sizes[1:]:
        buffers.append(rest[start : start + size])
        start += size
    return pickle.loads(data, buffers=buffers)  # noqa: S301 - of our own process


def take_line(*, prints: bool = False) -> IO[bytes]:
    """Return the line, in the process at its other end.

    Standard input is empty from now on. Output goes to stderr unless the process ``prints``.
    """
    line = os.fdopen(os.dup(0), "rb", buffering=0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if not prints:
        os.dup2(2, 1)
    return line


def when_closed(line: Connected | int, act: Callable[[], object]) -> None:
    """Call a function, in a thread, when the other side of a line has ended."""
    poll = select.poll()
    # It reports the end of the other side without being asked to.
    poll.register(line, 0)

    def is_closed() -> bool:
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll())

    def watch() -> None:
        while not is_closed():
            pass
        act()

    threading.Thread(target=watch, name="wdsflow-watch", daemon=True).start()


def _read(fd: int, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    start = 0
    while start < size:
        try:
            count = os.readv(fd, [view[start:]])
        except OSError:
            # It ended without reading all.
            count = 0
        if not count:
            raise EOFError("the other end is gone")
        start += count
    return data
