"""Python processes that this program starts, and what both sides need to talk: pickled values over pipes."""

import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_LENGTH = struct.Struct("<Q")


def start_python(
    code: str,
    *,
    words: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    inherit: Sequence[int] = (),
    **options: Any,
) -> "subprocess.Popen[bytes]":
    """Start a Python that runs ``code``, and finds the modules that this process finds.

    It is a plain subprocess, not one of multiprocessing: spawn would run the caller's script again where it has no
    ``__main__`` guard, fork copies a process that may hold threads, and daemonic processes may have no children.

    Args:
        code: what it runs.
        words: its arguments.
        environment: variables; those of this process take precedence.
        inherit: descriptors that it holds open.
        options: further arguments of ``Popen``.
    """
    root = str(Path(sys.modules["wdsflow"].__path__[0]).resolve().parent)
    path = [str(place) for place in sys.path] + [root] * (root not in sys.path)
    # Not by PYTHONPATH, which commands inherit that a shard or a score runs: these may be programs of another Python.
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}", *words],
        env={**(environment or {}), **os.environ},
        pass_fds=inherit,
        start_new_session=True,  # Ctrl-C is for the process that asked; those it started end with it
        **options,
    )


def send(pipe: IO[bytes], value: object) -> None:
    """Write a value to the process at the other end."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read a value. Raises EOFError if the other end is gone."""
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(length)[0])
    if len(data) < _LENGTH.unpack(length)[0]:
        raise EOFError  # killed while it wrote
    return pickle.loads(data)  # noqa: S301 - written by our own process


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return stdin and stdout of this process for messages; what libraries print then goes to stderr."""
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return pipes


def when_gone(fd: int, act: Callable[[], object]) -> None:
    """Call a function, in a thread, when the process at the other end of a pipe or socket is gone."""

    def watch() -> None:
        poll = select.poll()
        poll.register(fd, 0)
        while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            pass
        act()

    threading.Thread(target=watch, name="wdsflow-watch", daemon=True).start()
