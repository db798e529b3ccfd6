"""From single samples to a batch in OpenCLIP's shape, in memory that is used again. Imports numpy and torch."""

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, as_tensor
from wdsflow.training.sample_tasks import LaneTask
from wdsflow.training.stalls.work_in_progress import at
from wdsflow.training.workers.sample_work import MadeSample


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


class Assembler:
    """Makes a list [images, texts], or a dict of both for OpenCLIP 4."""

    def __init__(self, images: ImageWork, *, as_dict: bool) -> None:
        self._images, self._as_dict, self._pool = images, as_dict, BatchPool()

    def __call__(self, samples: Sequence[MadeSample], tasks: Sequence[LaneTask]) -> Any:
        """Return the batch of some samples. Raises SampleError if their images are not of one shape."""
        images = [made.image for made in samples]
        shapes = [getattr(image, "shape", None) for image in images]
        other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is not None:
            told = [f"{list(shapes[number] or ())} for {at([tasks[number]])}" for number in (0, other)]
            raise SampleError(
                f"the image transform returned shapes that make no batch: {', and '.join(told)}\n"
                "Let it return tensors of one shape, for instance by a crop at its end."
            )
        images = self._images.collate(images, self._room(samples))
        texts = stack([made.text for made in samples])
        return {"image": images, "text": texts} if self._as_dict else [images, texts]

    def _room(self, samples: Sequence[MadeSample]) -> torch.Tensor | None:
        if self._images.shape is not None:
            return self._pool.take((len(samples), *self._images.shape))
        first = samples[0].image
        if not isinstance(first, torch.Tensor) or first.dtype != torch.float32:
            return None
        return self._pool.take((len(samples), *first.shape))


def stack(items: Sequence[Any]) -> Any:
    """Return tensors or arrays of one shape as one tensor, numbers as a tensor, anything else as a list."""
    first = items[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf" and all(_alike(item, first) for item in items):
        return torch.from_numpy(np.stack(items))
    items = [as_tensor(item) for item in items]
    first = items[0]
    if isinstance(first, torch.Tensor):
        alike = all(isinstance(item, torch.Tensor) and item.shape == first.shape for item in items)
        return torch.stack(list(items)) if alike else list(items)
    if all(isinstance(item, (int, float)) for item in items):
        return torch.tensor(list(items))
    return list(items)


def _alike(item: Any, other: Any) -> bool:
    return isinstance(item, np.ndarray) and item.shape == other.shape and item.dtype == other.dtype
