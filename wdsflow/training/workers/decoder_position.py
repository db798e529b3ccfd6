"""What a decoding process is at. Its parent can read it at any time: while it hangs, and after it was killed."""

import faulthandler
import mmap
import os
import re
import signal
import time
import weakref
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from wdsflow.engines.peer import Note
from wdsflow.memory.budget import nameless_file
from wdsflow.stages import tokenize

_CELL = "qqd"  # orders begun, task of the latest, time
_TEXT = mmap.PAGESIZE  # where the child's stack is written
_PATIENCE = 0.5  # seconds that a process has to write it
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')
# wdsflow/training/, and what calls the user's tokenizer
_OURS = (os.path.join(os.path.dirname(os.path.dirname(__file__)), ""), tokenize.__file__)


class AtTask(NamedTuple):
    """How far a process has come."""

    order: int  # chunks that it has begun
    task: int  # of the latest; as many as it has while captions are tokenized, one more when all is done
    since: float  # of ``time.monotonic``, which is the same in all processes


class Whereabouts:
    """Shared by a process and the one that forks it."""

    def __init__(self) -> None:
        self._fd = nameless_file(_TEXT)
        self._cell = Note(_CELL, self._fd)
        self._end = weakref.finalize(self, _close, self._fd, self._cell)
        self.note(0, 0)

    def close(self) -> None:
        """In the parent: give its files back. Nothing can be read any more."""
        self._end()

    def listen(self) -> None:
        """In the child: write the stack down when asked for it, also in the midst of a library's code."""
        faulthandler.register(signal.SIGUSR2, file=self._fd, all_threads=False)

    def note(self, order: int, task: int) -> None:
        """In the child: say what is begun."""
        self._cell.write(order, task, time.monotonic())

    def read(self) -> AtTask:
        """Return what the child said last."""
        return AtTask(*self._cell.read())

    def stack(self, pid: int) -> list[str]:
        """Return where the child is in code that is not ours, innermost first; nothing if it does not answer."""
        os.ftruncate(self._fd, _TEXT)
        os.lseek(self._fd, _TEXT, os.SEEK_SET)
        os.kill(pid, signal.SIGUSR2)
        until, text = time.monotonic() + _PATIENCE, b""
        while time.monotonic() < until and not text.endswith(b"\n"):
            time.sleep(0.02)
            text = os.pread(self._fd, 1 << 16, _TEXT)
        return frames(text.decode(errors="replace"))


def _close(fd: int, cell: Note) -> None:
    os.close(fd)
    cell.close()  # it has a descriptor of its own


def frames(dump: str) -> list[str]:
    r"""Return the functions of a stack as faulthandler writes it.

    >>> frames('Current thread 0x1 (most recent call first):\n  File "/x.py", line 3 in sleep\n')
    ['sleep (/x.py, line 3)']
    """
    return others_frames((name, path, int(line)) for path, line, name in _FRAME.findall(dump))


def others_frames(stack: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return functions with their files and lines, innermost first, up to where the stack comes to our own."""
    theirs = takewhile(lambda frame: not frame[1].startswith(_OURS), stack)
    return [f"{name} ({path}, line {line})" for name, path, line in theirs]
