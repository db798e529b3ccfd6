"""Shards from shell commands."""

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import weakref

from .base import FIRST, NEXT, Source, SourceError
from .streams import ForwardSource

_running: dict[int, "tuple[subprocess.Popen[bytes], int, threading.Thread]"] = {}  # by number, and who started each
# Ahead of the command, in its group: kills all of it once nobody holds the other end of its input, however this process ends.
GUARD = "exec 3<&0 </dev/null; (read _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec 3<&-\n"
_stopped: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()  # threads that may run no command any more


class CommandStopped(Exception):
    """The command was killed by ``end_commands`` while it was read: nothing is known of the shard."""


def open_pipe(url: str) -> Source:
    """Run the command of a ``pipe:`` url in a shell and read what it writes. Raises ``SourceError``."""
    command = url.removeprefix("pipe:")
    try:
        process = subprocess.Popen(  # noqa: S602 - a shell command is what the user asked for, by flag
            GUARD + command, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise SourceError("io", str(error)) from None
    output, held = process.stdout, process.stdin
    assert output is not None
    assert held is not None
    thread, at_end = threading.current_thread(), False
    _running[process.pid] = process, os.getpid(), thread
    if thread in _stopped:  # since before it was noted, or else the other finds it there
        end_commands(thread)

    def read(size: int = NEXT) -> bytes:
        nonlocal at_end
        data = output.read(size)
        if process.pid not in _running:
            close()
            raise CommandStopped
        at_end = len(data) < size
        return data

    def close() -> str:
        """Return what is wrong if the command failed by itself; kill it where nobody reads what it still writes."""
        output.close()
        try:
            status = process.wait(timeout=10 if at_end else 0)
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            status = process.wait()
        if not held.closed:
            _kill(process.pid)  # the guard: processes that were forked meanwhile may hold its input, too
            held.close()
        _running.pop(process.pid, None)
        return f"the command ended with status {status}" if status else ""

    return ForwardSource(url, read, read(FIRST), close=close)


@atexit.register
def end_commands(thread: threading.Thread | None = None) -> None:
    """Kill the commands that a thread of this process runs; it can run no other. None takes those of all threads.

    A command that waits for storage would outlive this process.
    """
    if thread is not None:
        _stopped.add(thread)
    for number, (process, owner, starter) in list(_running.items()):
        if owner == os.getpid() and thread in {None, starter}:
            _running.pop(number, None)
            if process.poll() is None:
                _kill(number)


def _kill(number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(number, signal.SIGKILL)
