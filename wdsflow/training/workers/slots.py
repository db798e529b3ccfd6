"""Transfer of decoded samples to the training process: images in shared memory, others pickled."""

import errno
import io
import math
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.memory.shared_memory import shared_memory
from wdsflow.memory.sizes import format_size
from wdsflow.training.pixels.image_work import as_array

_SHARED = "/dev/shm"  # noqa: S108 - what others put there


def shared_memory_notes(error: BaseException, processes: str) -> list[str]:
    """Return the free shared memory and how to get more, if an error may be due to a lack of it.

    ``processes``: the user's name of the number of decoding processes.
    """
    if (
        _SHARED in str(error)
        or "shared memory" in str(error)
        or getattr(error, "errno", 0) == errno.ENOSPC
    ):
        return [f"  {shared_memory_state()}; {more_shared_memory_fix(processes)}"]
    return []


def more_shared_memory_fix(processes: str) -> str:
    """Return how to get more shared memory; ``processes`` as in ``shared_memory_notes``."""
    return f"more shared memory for a container: docker run --shm-size=8g ..., or fewer processes: {processes}"


def shared_memory_state() -> str:
    """Return a text on the free part of the shared memory."""
    try:
        status = os.statvfs(_SHARED)
    except OSError as error:
        return f"{_SHARED} is not there ({error.strerror})"
    free = format_size(status.f_bavail * status.f_frsize)
    total = format_size(status.f_blocks * status.f_frsize)
    return f"{_SHARED} has {free} of {total} free"


class HeldSlot(NamedTuple):
    """The layout of an image in its slot."""

    dtype: str
    shape: tuple[int, ...]
    # Or an array.
    tensor: bool


class Slots:
    """``count`` slots for images of at most ``size`` bytes each.

    A forked child writes them and its parent reads them.

    The memory is a nameless file, not one in ``/dev/shm``, which in containers often has 64 MiB
    only. A slot takes memory once something is written into it.
    """

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._map = shared_memory(max(1, count * size))
        memory = np.frombuffer(self._map, np.uint8, count * size)
        # A row for each slot.
        self._all: NDArray[np.uint8] = memory.reshape(count, size)
        self._free = deque(range(count))
        self._lent: dict[int, weakref.ref[NDArray[Any]]] = {}
        self._lock = threading.Lock()

    def take(self, count: int) -> list[int]:
        """Return the numbers of free slots, and -1 for each missing one."""
        with self._lock:
            numbers = [self._free.popleft() for _ in range(min(count, len(self._free)))]
        return numbers + [-1] * (count - len(numbers))

    def write(self, number: int, image: object) -> object:
        """Write an image into a slot and return its description.

        If the image does not fit, return it unchanged.
        """
        array = as_array(image) if number >= 0 else None
        if array is None or array.nbytes > self.size:
            return image
        held = HeldSlot(array.dtype.str, array.shape, array is not image)
        self._view(number, held)[...] = array
        return held

    def lend(self, number: int, held: HeldSlot) -> object:
        """Return the image in a slot. The slot is freed with the last reference to the image."""
        array = self._view(number, held)
        # The weak reference must live as long as the array.
        self._lent[number] = weakref.ref(array, partial(self._free_slot, number))
        if not held.tensor:
            return array
        import torch

        # Keeps the array.
        return torch.from_numpy(array)

    def give_back(self, *numbers: int) -> None:
        """Free slots that were taken and not lent."""
        self._free.extend(number for number in numbers if number >= 0)

    def _view(self, number: int, held: HeldSlot) -> NDArray[Any]:
        size = math.prod(held.shape) * np.dtype(held.dtype).itemsize
        return self._all[number, :size].view(held.dtype).reshape(held.shape)

    def _free_slot(self, number: int, _: object) -> None:
        # Without a lock: garbage collection may call this inside take(); deques need none.
        self._free.append(number)


def stack_rows(items: Sequence[object]) -> NDArray[Any] | None:
    """Return texts as one array with a row for each; None if they cannot be joined."""
    rows: list[NDArray[Any]] = []
    for item in items:
        row = as_array(item)
        if row is None:
            return None
        rows.append(row)
    if not rows or len(set(map(type, items))) > 1:
        return None
    first = rows[0]
    # A number is no row.
    if not first.ndim:
        return None
    if any(row.shape != first.shape or row.dtype != first.dtype for row in rows):
        return None
    return np.stack(rows)


def pickle_value(value: object) -> bytes:
    """Return the pickle of a value, with tensors as arrays.

    This is many times faster than torch's own pickle.
    """
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        array = None if isinstance(value, np.ndarray) else as_array(value)
        return NotImplemented if array is None else (_tensor, (array,))


def _tensor(array: NDArray[Any]) -> object:
    import torch

    return torch.from_numpy(array)
