"""Finds the line of the user's code at which a process of a run hangs.

The process writes its stacks when it gets a signal.
"""

import contextlib
import faulthandler
import os
import re
import signal
import time
from pathlib import Path

import psutil

from ...tracing.errors import own_line
from .process_position import MAIN, Role

# No library uses it.
_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR1) + 7
_SUFFIX = ".stacks"
# Seconds that a process has to write its stacks, and between two looks at the file.
_SECONDS, _PAUSE = 1.0, 0.1
_FRAME = re.compile(r'  File "(.*)", line (\d+) in ')


def write_stacks_at_signal(folder: Path, role: Role) -> None:
    """Let this process write the stacks of its threads at a signal.

    That works even while it holds Python's lock.
    """
    # It stays open as long as the process.
    file = (folder / f"{role}-{os.getpid()}{_SUFFIX}").open("w")
    faulthandler.register(_SIGNAL, file, all_threads=True)


def hanging_line(folder: Path, parent: int) -> tuple[int, str]:
    """Return the process that waits in the code of the user, and the line; (0, "") if none does.

    Args:
        folder: of the run.
        parent: the number of a process; those that it started are looked at, a loader's workers
            first.
    """
    # Some processes may end meanwhile.
    with contextlib.suppress(psutil.Error):
        alive = {child.pid for child in psutil.Process(parent).children(recursive=True)}
        paths = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.name.startswith(MAIN))
        for path in paths:
            pid = int(path.stem.rpartition("-")[2])
            if pid not in alive:
                continue
            line = own_line_in(_requested_stacks(path, pid))
            if line:
                return pid, line
    return 0, ""


def own_line_in(stacks: str) -> str:
    """Return the innermost line of the user's code in the stacks of a process.

    Returns "" if there is none. The stack of the main thread is the last one in the text.
    """
    for stack in reversed(stacks.split("\n\n")):
        for file, number in _FRAME.findall(stack):
            line = own_line(_unescaped(file), int(number))
            if line:
                return line
    return ""


def _requested_stacks(path: Path, pid: int) -> str:
    """Ask a process for its stacks, and return them as soon as they are whole."""
    with contextlib.suppress(OSError):
        os.kill(pid, _SIGNAL)
    stacks = ""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        before = stacks
        stacks = path.read_text("utf-8", "replace")
        if stacks and stacks == before:
            break
    return stacks


def _unescaped(path: str) -> str:
    """Return a path in which characters beyond ASCII were spelled as escapes."""
    try:
        return path.encode("ascii").decode("unicode_escape")
    except UnicodeError:
        # A path with a backslash of its own.
        return path
