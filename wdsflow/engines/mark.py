"""Shared memory in which a process notes its position.

Others read it at any time, also after a crash.
"""

import mmap
import os
import struct
from typing import Any, NamedTuple

_NUMBER = struct.Struct("<q")
_PROGRESS = struct.Struct("<qd")


class SharedValues:
    """Values in shared memory.

    ``fd`` is its file descriptor; at -1, the memory is of this process alone. ``layout`` is one of
    ``struct``.
    """

    def __init__(self, layout: str, fd: int) -> None:
        self.fd = fd
        self._layout = struct.Struct(layout)
        if fd >= 0 and os.fstat(fd).st_size < mmap.PAGESIZE:
            os.ftruncate(fd, mmap.PAGESIZE)
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)

    def write(self, *values: float | bytes) -> None:
        """Replace the values."""
        self._layout.pack_into(self._memory, 0, *values)

    def read(self) -> tuple[Any, ...]:
        """Return the values that were written last."""
        return self._layout.unpack_from(self._memory)

    def close(self) -> None:
        """Unmap the memory; the descriptor belongs to the caller."""
        self._memory.close()


class TaskProgress(NamedTuple):
    """How much of a task is done. ``share``: from 0 to 1."""

    samples: int
    share: float


class Mark(SharedValues):
    """The number of the sample that a process is at, and how much of its task is done.

    -1 stands for no sample.
    """

    def __init__(self, fd: int = -1) -> None:
        super().__init__("<qqd", fd)
        self.reset()

    def reset(self) -> None:
        """Note that a task begins, or that none is under way."""
        self.write(-1, 0, 0.0)

    def set_sample(self, number: int) -> None:
        """Set the sample that begins."""
        _NUMBER.pack_into(self._memory, 0, number)

    def sample(self) -> int:
        """Return the number that was set last."""
        return int(self.read()[0])

    def set_progress(self, samples: int, share: float) -> None:
        """Set how many samples of the task are done, and which share of it."""
        _PROGRESS.pack_into(self._memory, _NUMBER.size, samples, share)

    @property
    def progress(self) -> TaskProgress:
        """How much of the task is done."""
        return TaskProgress(*self.read()[1:])

    @property
    def is_begun(self) -> bool:
        """Whether the first sample of the task has begun."""
        number, samples, _ = self.read()
        return bool(number >= 0 or samples > 0)
