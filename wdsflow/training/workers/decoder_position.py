"""The progress of a decoding process, in memory shared with its parent, and its call stack."""

import faulthandler
import mmap
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from wdsflow.engines.mark import SharedValues
from wdsflow.memory.shared_memory import unnamed_file
from wdsflow.stages import tokenizer_contract

# Chunks begun, task of the latest, time.
_CELL = "qqd"
# Where the child's stack is written.
_TEXT = mmap.PAGESIZE
# Seconds that a process has to write it.
_PATIENCE = 0.5
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')
# wdsflow/training/, and the code that calls the user's tokenizer.
_OURS = (os.path.join(os.path.dirname(os.path.dirname(__file__)), ""), tokenizer_contract.__file__)


class Position(NamedTuple):
    """The position of a process.

    ``chunk``: how many it has begun. ``task``: in the latest; the number of its tasks while
    captions are tokenized, one more when all is done. ``since``: by ``time.monotonic``, comparable
    across processes.
    """

    chunk: int
    task: int
    since: float


class SharedPosition:
    """The position of a process in memory that it shares with its parent."""

    def __init__(self) -> None:
        self._fd = unnamed_file(_TEXT)
        self._cell = SharedValues(_CELL, self._fd)
        self._end = weakref.finalize(self, _close, self._fd, self._cell)
        # Held while the stack is read: closed meanwhile, the
        # number of the file might be that of another file.
        self._in_use = threading.RLock()
        self.write(0, 0)

    def close(self) -> None:
        """In the parent: close its files."""
        with self._in_use:
            self._end()

    def allow_stack_requests(self) -> None:
        """In the child: let the parent request the stack, even inside a library's code."""
        faulthandler.register(signal.SIGUSR2, file=self._fd, all_threads=False)

    def write(self, chunk: int, task: int) -> None:
        """In the child: write the position."""
        self._cell.write(chunk, task, time.monotonic())

    def read(self) -> Position:
        """Return the last position."""
        return Position(*self._cell.read())

    def stack(self, pid: int) -> list[str]:
        """Return the child's functions outside wdsflow's code, innermost first.

        Empty if the child does not answer or is closed.
        """
        with self._in_use:
            return self._stack(pid) if self._end.alive else []

    def _stack(self, pid: int) -> list[str]:
        os.ftruncate(self._fd, _TEXT)
        os.lseek(self._fd, _TEXT, os.SEEK_SET)
        os.kill(pid, signal.SIGUSR2)
        until = time.monotonic() + _PATIENCE
        text = b""
        while time.monotonic() < until and not text.endswith(b"\n"):
            time.sleep(0.02)
            text = os.pread(self._fd, 1 << 16, _TEXT)
        return frames(text.decode(errors="replace"))


def frames(dump: str) -> list[str]:
    r"""Return the functions of a stack as faulthandler writes it.

    >>> frames('Current thread 0x1 (most recent call first):\n  File "/x.py", line 3 in sleep\n')
    ['sleep (/x.py, line 3)']
    """
    return frames_outside_wdsflow(
        (name, path, int(line)) for path, line, name in _FRAME.findall(dump)
    )


def frames_outside_wdsflow(stack: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return functions with their files and lines, innermost first, up to the first of our own."""
    theirs = takewhile(lambda frame: not frame[1].startswith(_OURS), stack)
    return [f"{name} ({path}, line {line})" for name, path, line in theirs]


def _close(fd: int, cell: SharedValues) -> None:
    os.close(fd)
    # It duplicates the descriptor.
    cell.close()
