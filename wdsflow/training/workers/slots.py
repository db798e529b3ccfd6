"""Shared memory, and slots in it for the images of a batch."""

import errno
import os
import threading
import weakref
from collections import deque
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.memory.sizes import format_size, shared_memory
from wdsflow.training.pixels.image_work import as_array

_SHARED = "/dev/shm"  # noqa: S108 - what others put there


def shared_memory_notes(error: BaseException, processes: str) -> list[str]:
    """Return how much shared memory there is, and how to get more, if an error may be for want of it.

    ``processes``: how the user names the number of decoding processes.
    """
    if _SHARED in str(error) or "shared memory" in str(error) or getattr(error, "errno", 0) == errno.ENOSPC:
        return [f"  {shared_memory_state()}; {more_shared(processes)}"]
    return []


def more_shared(processes: str) -> str:
    """Return how to get more shared memory; ``processes`` as in ``shared_memory_notes``."""
    return f"more shared memory for a container: docker run --shm-size=8g ..., or fewer processes: {processes}"


def shared_memory_state() -> str:
    """Return how much of the shared memory is free."""
    try:
        found = os.statvfs(_SHARED)
    except OSError as error:
        return f"{_SHARED} is not there ({error.strerror})"
    free, total = (format_size(blocks * found.f_frsize) for blocks in (found.f_bavail, found.f_blocks))
    return f"{_SHARED} has {free} of {total} free"


class HeldSlot(NamedTuple):
    """An image that is in its slot: what to make of the bytes there."""

    dtype: str
    shape: tuple[int, ...]
    tensor: bool  # or an array


class Slots:
    """``count`` places for images of at most ``size`` bytes each.

    What a forked child writes its parent reads. The memory is a file without a name, never one in ``/dev/shm``, of
    which containers often have 64 MiB only. A slot takes memory where something is written into it.
    """

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size
        self._map = shared_memory(max(1, count * size))
        self._all: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8, count * size).reshape(count, size)
        self._free = deque(range(count))
        self._lent: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.Lock()

    def take(self, count: int) -> list[int]:
        """Return the numbers of free slots; -1 in the place of those that are lacking."""
        with self._lock:
            found = [self._free.popleft() for _ in range(min(count, len(self._free)))]
        return found + [-1] * (count - len(found))

    def write(self, number: int, image: Any) -> Any:
        """Put an image into a slot and return what it is there; return the image itself if it does not fit."""
        array = as_array(image) if number >= 0 else None
        if array is None or array.nbytes > self.size:
            return image
        held = HeldSlot(array.dtype.str, array.shape, array is not image)
        self._view(number, held)[...] = array
        return held

    def lend(self, number: int, held: HeldSlot) -> Any:
        """Return what is in a slot, which is free again when the last reference to the result is gone."""
        array = self._view(number, held)
        # The weak reference has to live as long as what it watches.
        self._lent[number] = weakref.ref(array, partial(self._back, number))
        if not held.tensor:
            return array
        import torch

        return torch.from_numpy(array)  # keeps the array

    def give_back(self, number: int) -> None:
        """Free a slot that was taken and not lent."""
        if number >= 0:
            self._free.append(number)

    def _view(self, number: int, held: HeldSlot) -> NDArray[Any]:
        size = int(np.prod(held.shape, dtype=np.int64)) * np.dtype(held.dtype).itemsize
        return self._all[number, :size].view(held.dtype).reshape(held.shape)

    def _back(self, number: int, _: Any) -> None:
        # Without a lock, as this may happen while garbage is collected in the midst of take(); deques need none.
        self._free.append(number)
