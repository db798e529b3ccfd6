"""Shards from shell commands."""

import atexit
import contextlib
import os
import signal
import subprocess

from .source import FIRST, NEXT, Source, SourceError
from .streams import ForwardSource

_running: dict[int, "tuple[subprocess.Popen[bytes], int]"] = {}  # by number, and who started each


def open_pipe(url: str) -> Source:
    """Run the command of a ``pipe:`` url in a shell and read what it writes. Raises ``SourceError``."""
    command = url.removeprefix("pipe:")
    try:
        process = subprocess.Popen(  # noqa: S602 - a shell command is what the user asked for, by flag
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise SourceError("io", str(error)) from None
    output = process.stdout
    if output is None:
        raise SourceError("io", "the command has no output")
    _running[process.pid] = process, os.getpid()

    def close() -> str:
        """Return what is wrong if the command failed by itself."""
        output.close()
        try:
            status = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        _running.pop(process.pid, None)
        return f"the command ended with status {status}" if status else ""

    return ForwardSource(url, lambda: output.read(NEXT), output.read(FIRST), close=close)


@atexit.register
def end_commands() -> None:
    """Kill what this process has started and still runs: a command that waits for storage would outlive it."""
    for number, (process, owner) in list(_running.items()):
        if owner != os.getpid():
            continue
        _running.pop(number, None)
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(number, signal.SIGKILL)
