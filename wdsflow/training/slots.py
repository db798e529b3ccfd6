"""Memory that processes share, in slots of one picture each. Imports numpy."""

import mmap
import os
import tempfile
import threading
import weakref
from collections import deque
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


class Slots:
    """``count`` places for arrays of uint8 of one shape.

    What a forked child writes its parent reads. The memory is a file without a name: containers often give
    ``/dev/shm`` 64 MiB only.
    """

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self.count, self.shape = count, shape
        self._map = _shared_memory(count * int(np.prod(shape)))
        self._all: Pixels = np.frombuffer(self._map, np.uint8).reshape(count, *shape)
        self._free = deque(range(count))
        self._lent: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.Lock()

    def take(self, count: int) -> list[int]:
        """Return the numbers of free slots; -1 in the place of those that are lacking."""
        with self._lock:
            found = [self._free.popleft() for _ in range(min(count, len(self._free)))]
        return found + [-1] * (count - len(found))

    def write(self, number: int, pixels: Pixels) -> None:
        """Fill a slot."""
        self._all[number] = pixels

    def lend(self, number: int) -> Pixels:
        """Return what is in a slot, which is free again when the last reference to the result is gone."""
        pixels: Pixels = self._all[number]
        # The weak reference has to live as long as what it watches.
        self._lent[number] = weakref.ref(pixels, partial(self._back, number))
        return pixels

    def give_back(self, number: int) -> None:
        """Free a slot that was taken and not lent."""
        if number >= 0:
            self._free.append(number)

    def _back(self, number: int, _: Any) -> None:
        # Without a lock, as this may happen while garbage is collected in the midst of take(); deques need none.
        self._free.append(number)


def _shared_memory(size: int) -> mmap.mmap:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("wdsflow-slots")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, size)
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)
