"""Memory for batches, used again as soon as nobody holds what was in it. Imports numpy and torch."""

import weakref
from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray


class BatchPool:
    """Gives out tensors of float32. Fresh pages for each batch would cost as much as resizing the images.

    Memory comes back when the last tensor that shares it is gone, views among them: a batch that the user keeps stays
    as it is, and another one is made.
    """

    def __init__(self, spare: int = 3) -> None:
        # Without a lock: memory comes back while garbage is collected, which may be in the midst of take().
        self._free: deque[NDArray[np.float32]] = deque(maxlen=spare)
        self.made = 0

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a tensor of that shape; what is in it is undefined."""
        count = int(np.prod(shape))
        memory = self._fitting(count)
        if memory is None:
            memory = np.empty(count, np.float32)
            self.made += 1
        lent = memory[:count].reshape(shape)
        # torch keeps this view as long as any tensor shares its memory.
        weakref.finalize(lent, self._free.append, memory).atexit = False
        return torch.from_numpy(lent)

    def _fitting(self, count: int) -> NDArray[np.float32] | None:
        while True:
            try:
                memory = self._free.popleft()
            except IndexError:
                return None
            if memory.size >= count:
                return memory
