"""The position of a decoding process, and the message for its death."""

import faulthandler
import mmap
import os
import re
import signal
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from wdsflow.engines.peer import Note, killed_by
from wdsflow.memory.sizes import format_size, nameless_file
from wdsflow.memory.usage import host_memory
from wdsflow.stages import tokenize
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.field_fixes import argument, at, command, processes_named, resumed, without

from .slots import more_shared, shared_memory_state

_CELL = "qqd"  # orders begun, task of the latest, time
_TEXT = mmap.PAGESIZE  # where the child's stack is written
_PATIENCE = 0.5  # seconds that a process has to write it
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')
# wdsflow/training/, and the code that calls the user's tokenizer
_OURS = (os.path.join(os.path.dirname(os.path.dirname(__file__)), ""), tokenize.__file__)


class AtTask(NamedTuple):
    """The position of a process."""

    order: int  # chunks that it has begun
    task: int  # in the latest; the number of its tasks during tokenizing, one more when done
    since: float  # ``time.monotonic``, comparable across processes


class Whereabouts:
    """The position of a process in memory that it shares with its parent."""

    def __init__(self) -> None:
        self._fd = nameless_file(_TEXT)
        self._cell = Note(_CELL, self._fd)
        self._end = weakref.finalize(self, _close, self._fd, self._cell)
        self.note(0, 0)

    def close(self) -> None:
        """In the parent: close its files."""
        self._end()

    def listen(self) -> None:
        """In the child: let the parent request the stack, even inside a library's code."""
        faulthandler.register(signal.SIGUSR2, file=self._fd, all_threads=False)

    def note(self, order: int, task: int) -> None:
        """In the child: write the position."""
        self._cell.write(order, task, time.monotonic())

    def read(self) -> AtTask:
        """Return the last position."""
        return AtTask(*self._cell.read())

    def stack(self, pid: int) -> list[str]:
        """Return the child's functions outside our code, innermost first; empty if it does not answer."""
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
    cell.close()  # it duplicates the descriptor


def frames(dump: str) -> list[str]:
    r"""Return the functions of a stack as faulthandler writes it.

    >>> frames('Current thread 0x1 (most recent call first):\n  File "/x.py", line 3 in sleep\n')
    ['sleep (/x.py, line 3)']
    """
    return others_frames((name, path, int(line)) for path, line, name in _FRAME.findall(dump))


def others_frames(stack: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return functions with their files and lines, innermost first, up to the first of our own."""
    theirs = takewhile(lambda frame: not frame[1].startswith(_OURS), stack)
    return [f"{name} ({path}, line {line})" for name, path, line in theirs]


_CRASHES = frozenset({"SIGSEGV", "SIGILL", "SIGFPE", "SIGABRT"})


class Death(NamedTuple):
    """How a process ended."""

    who: str  # "decoder 1 (process 4242)"
    code: int | None  # its exit status, negative for a signal
    tasks: Sequence[Task]  # it was at one of these
    tokens: bool  # all images of them were done
    processes: int  # in all
    known: bool  # they run one of OpenCLIP's transforms, and --decoders is their number


def not_started_message(number: int, error: OSError, options: FeedOptions, *, known: bool) -> str:
    """Return why a decoder cannot be started, and a fix. ``known``: as in ``Death``."""
    fewer = f"start fewer: {command(options, decoders=str(max(1, number // 2)))}"
    if not known:
        fewer = f"start fewer than {number + 1}: {argument(options, 'workers')}"
    lines = [f"decoder {number} cannot be started: {error.strerror or error}.", "To fix it:"]
    limits = "raise the limits of open files and processes: ulimit -n, ulimit -u"
    return "\n".join([*lines, *([f"  {fewer}"] if number else []), f"  {limits}"])


def death_message(death: Death, options: FeedOptions) -> str:
    """Return how a process ended, at which sample, and a fix."""
    where = f"at {at(death.tasks, tokens=death.tokens)}" if death.tasks else "between two samples"
    how, cause = _how(death.code)
    lines = [f"{death.who} {how}, {where}.", *([cause] if cause else []), "To fix it:"]
    return "\n".join([*lines, *(f"  {each}" for each in _next(death, options))])


def _how(code: int | None) -> tuple[str, str]:
    """Return how a process ended, and the usual cause."""
    if code is None:
        return "closed its pipe", ""
    name = killed_by(code)
    if not name:
        return f"ended by itself with exit status {code}", "The image transform or the tokenizer called exit."
    cause = ""
    if name == "SIGKILL":
        memory = host_memory()
        free = f"{format_size(memory.free)} of {format_size(memory.total)} are free now"
        cause = f"The kernel kills a process this way when memory runs out: {free}."
    elif name == "SIGBUS":
        cause = f"This happens where shared memory, or a disk, is full: {shared_memory_state()}."
    elif name in _CRASHES:
        cause = "A library has crashed in it."
    return f"was ended by {name}", cause


def _next(death: Death, options: FeedOptions) -> Iterator[str]:
    name = killed_by(death.code)
    if name == "SIGKILL":
        if death.known and death.processes > 1:
            yield f"with less memory: {command(options, decoders=str(death.processes // 2))}"
        elif not death.known:
            fewer = f"fewer workers than {death.processes} ({argument(options, 'workers')}), or "
            smaller = f"smaller batches ({argument(options, 'batch_size')})"
            yield f"with less memory: {fewer if death.processes > 1 else ''}{smaller}"
        yield "look who killed it: dmesg | grep -i -e oom -e killed"
    elif name == "SIGBUS":
        yield more_shared(processes_named(options, known=death.known))
    if len(death.tasks) == 1 and name not in {"SIGTERM", "SIGINT", "SIGHUP"}:
        yield from without(death.tasks[0])
    yield f"from the last checkpoint: {resumed(options)}"
