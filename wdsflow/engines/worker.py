"""The other end of ``Process``: works on one task after another."""

import contextlib
import os
import pickle
import select
import signal
import struct
import sys
import threading
from typing import IO, Any

from wdsflow.engines.base import trouble_of
from wdsflow.engines.mark import Mark

_LENGTH = struct.Struct("<Q")


def send(pipe: IO[bytes], value: object) -> None:
    """Write a value to the process at the other end."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read a value. Raises EOFError where the other end is gone."""
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(length)[0])
    if len(data) < _LENGTH.unpack(length)[0]:
        raise EOFError  # killed while it wrote
    return pickle.loads(data)  # noqa: S301 - written by our own process


def serve(mark: int) -> None:
    """Work on tasks that come over stdin until it ends. ``mark``: a descriptor for ``Mark``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    pipe, sys.stdout = sys.stdout.buffer, sys.stderr
    note = Mark(mark)
    threading.Thread(target=_watch, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            function, argument = receive(sys.stdin.buffer)
            note.set(-1)
            try:
                answer = function(argument, note)
            except Exception as error:  # noqa: BLE001 - told to the process that asked
                answer = trouble_of(error)
            send(pipe, answer)


def _watch() -> None:
    """End at once when the process that asked is gone: nobody would write down what is done from now on."""
    poll = select.poll()
    poll.register(0, 0)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os._exit(1)
