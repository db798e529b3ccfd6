"""Where a run is: still readable when its process is gone."""

import mmap
import os
import struct
from typing import NamedTuple

from ..tracing.meter import TraceRun

_HEAD = struct.Struct("<qqHH")
_MOST = 1000  # bytes of a key, and of a shard


class RunPlace(NamedTuple):
    """How far a run came."""

    out: int = 0  # elements
    stage: int = -1  # whose code ran, from 0; -1 while the pipeline was built
    key: str = ""  # of the sample that the stage was at
    shard: str = ""


class LastSeen:
    """The place of a run, in shared memory after a file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < mmap.PAGESIZE:
            os.ftruncate(fd, mmap.PAGESIZE)
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)

    def clear(self) -> None:
        """Note that the pipeline is being built."""
        _HEAD.pack_into(self._memory, 0, 0, -1, 0, 0)

    def note(self, run: TraceRun, stage: int) -> None:
        """Note that the code of a stage begins to run."""
        key, shard = (text.encode("utf-8", "replace")[:_MOST] for text in run.place(stage))
        end = _HEAD.size + len(key)
        self._memory[_HEAD.size : end + len(shard)] = key + shard
        _HEAD.pack_into(self._memory, 0, run.seen[-2].out, stage, len(key), len(shard))

    def place(self) -> RunPlace:
        """Return what was noted last."""
        out, stage, key, shard = _HEAD.unpack_from(self._memory)
        end = _HEAD.size + key
        texts = (self._memory[_HEAD.size : end], self._memory[end : end + shard])
        return RunPlace(out, stage, *(text.decode("utf-8", "replace") for text in texts))
