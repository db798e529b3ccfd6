"""Values from process to process over a socket; arrays travel as they are in memory, without a copy in between."""

import pickle
import socket
import struct
from typing import Any

_COUNT = struct.Struct("<Q")


def send(to: socket.socket, value: Any) -> None:
    """Write a value. Raises OSError if the other end is gone."""
    apart: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, 5, buffer_callback=apart.append)
    parts = [memoryview(data), *(buffer.raw() for buffer in apart)]
    to.sendall(b"".join([_COUNT.pack(len(parts)), *(_COUNT.pack(part.nbytes) for part in parts)]))
    for part in parts:
        to.sendall(part)


def receive(source: socket.socket) -> Any:
    """Read a value of a process that is trusted. Raises EOFError or OSError if the other end is gone."""
    (count,) = _COUNT.unpack(_read(source, _COUNT.size))
    sizes = [size for (size,) in _COUNT.iter_unpack(_read(source, count * _COUNT.size))]
    data = _read(source, sizes[0])
    rest, apart, start = memoryview(_read(source, sum(sizes[1:]))), [], 0
    for size in sizes[1:]:
        apart.append(rest[start : start + size])
        start += size
    return pickle.loads(data, buffers=apart)  # noqa: S301 - said above


def _read(source: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        read = source.recv_into(view[at:])
        if not read:
            raise EOFError("the other end is gone")
        at += read
    return found
