"""What the runs of a node need next: each run keeps a plan in a file that the others read.

The plan ends with its process.

A file has the number of uses, the number of each shard (``entry.url_number``) in the order of use,
and a byte for each use, which is set when the shard is opened. Its process holds its lock: the file
of a process that was killed is removed by the next one.
"""

import os
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from wdsflow.shards.atomic import create_temporary, discard_temporary, remove_stale_files

from .folder import CacheFolder
from .locks import is_locked, try_lock, unlock
from .policy import next_uses

_SUFFIX = ".plan"
_HEAD = struct.Struct("<8sQ")
_MAGIC = b"wdsplan1"


class RunPlan:
    """The uses of one run. Thread-safe."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder = folder
        # A feed that is dropped ends its plan, maybe during garbage collection inside these
        # functions.
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._path: Path | None = None
        self._file = -1
        # Positions of the uses of this epoch that have not been, by shard.
        self._waiting: dict[int, deque[int]] = {}
        self._done_at = 0

    def begin_epoch(self, uses: Sequence[int], uses_in_epoch: int) -> None:
        """Replace the plan by that of an epoch and the epochs after it.

        Locks the folder. Raises OSError.

        Args:
            uses: the shards that are opened, in this order.
            uses_in_epoch: how many of them are of the epoch that begins.
        """
        waiting: defaultdict[int, deque[int]] = defaultdict(deque)
        for position, shard in enumerate(uses[:uses_in_epoch]):
            waiting[shard].append(position)
        numbers = np.array(uses, "<u8").tobytes()
        data = _HEAD.pack(_MAGIC, len(uses)) + numbers + bytes(len(uses))
        # A process that looks for plans removes files without a lock, which a new file has for a
        # moment.
        with self._folder.locked():
            path, file = self._write(data)
        with self._lock:
            self._end()
            self._path, self._file, self._owner = path, file, os.getpid()
            self._waiting = dict(waiting)
            self._done_at = _HEAD.size + len(numbers)

    def note_use(self, shard: int) -> None:
        """Note that a shard is opened. Raises OSError."""
        with self._lock:
            positions = self._waiting.get(shard)
            if positions and self._owner == os.getpid():
                os.pwrite(self._file, b"\1", self._done_at + positions.popleft())

    def close(self) -> None:
        """Remove the plan."""
        with self._lock:
            self._end()

    def _write(self, data: bytes) -> tuple[Path, int]:
        """Write a new file; return its path and its descriptor, which keeps it locked.

        Raises OSError.
        """
        path = self._folder.runs / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
        temporary, file = create_temporary(path)
        try:
            try_lock(file)
            # Unlike os.write, it writes all bytes or raises, such as on a disk that is full.
            with open(file, "wb", closefd=False) as stream:
                stream.write(data)
            os.rename(temporary, path)
        except OSError:
            unlock(file)
            discard_temporary(temporary, file)
            raise
        return path, file

    def _end(self) -> None:
        # A process that was forked leaves the plan to its parent.
        if self._path is not None and self._owner == os.getpid():
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            unlock(self._file)
            os.close(self._file)
        self._path, self._file = None, -1
        self._waiting = {}


def next_uses_of_runs(folder: CacheFolder) -> dict[int, float]:
    """Return how many uses come before the next use of each shard.

    The plans of all running processes count.

    Plans of others are removed: call it while the folder is locked.
    """
    remove_stale_files(folder.runs)
    needed: dict[int, float] = {}
    for name in os.listdir(folder.runs):
        if not name.endswith(_SUFFIX):
            continue
        path = folder.runs / name
        with suppress(FileNotFoundError):
            if not is_locked(path):
                os.unlink(path)
                continue
            for shard, before in _next_uses(path.read_bytes()).items():
                needed[shard] = min(needed.get(shard, before), before)
    return needed


def _next_uses(data: bytes) -> dict[int, float]:
    """Return how many uses come before the next use of each shard of a plan."""
    magic, count = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0)
    if magic != _MAGIC or len(data) != _HEAD.size + 9 * count:
        return {}
    uses = np.frombuffer(data, "<u8", count, _HEAD.size)
    done = np.frombuffer(data, bool, count, _HEAD.size + 8 * count)
    return next_uses(uses, done)
