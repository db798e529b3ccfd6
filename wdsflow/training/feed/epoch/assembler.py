"""From samples to a batch. Imports numpy and torch."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch

from wdsflow.training.columns import IMAGE, TEXT, FeedColumns
from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, as_tensor
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.hanging import samples_text

from .batch_pool import BatchPool

# A list of columns, a dict of them by name, or what the user's map makes, joined.
Batch: TypeAlias = object
Shape: TypeAlias = tuple[int, ...] | None


class Assembler:
    """Joins samples into a batch: a list of columns, or a dict of them.

    ``images``: how the images of each source are joined.
    """

    def __init__(self, images: Sequence[ImageWork | None], columns: FeedColumns) -> None:
        self._images = images
        self._columns = columns
        self._pool = BatchPool()

    def __call__(self, samples: Sequence[Task]) -> Batch:
        """Return a batch of made samples. Raises SampleError if they make none."""
        if self._columns.map is not None:
            return self._mapped(samples)
        columns = [self._column(number, samples) for number in self._columns.order]
        names = self._columns.names
        return columns if names is None else dict(zip(names, columns, strict=True))

    def _mapped(self, samples: Sequence[Task]) -> Batch:
        try:
            return join_results([task.made.other_values[0] for task in samples])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise SampleError(
                f"map returned samples that make no batch: {error!r}, among {samples_text(samples)}"
            ) from error

    def _column(self, number: int, samples: Sequence[Task]) -> object:
        if number == IMAGE:
            return self._pictures(samples)
        if number == TEXT:
            return stack([task.made.text for task in samples])
        return stack([task.made.other_values[number] for task in samples])

    def _pictures(self, samples: Sequence[Task]) -> object:
        """Return the images as one tensor, or as a list if they cannot be stacked.

        The tensor is in memory of the pool if the shape of the images is known.
        """
        self._check_shapes(samples)
        memory = self._memory(samples)
        parts: list[object] = []
        start = 0
        for source, group in groupby(samples, lambda task: task.stream.source):
            images = [task.made.image for task in group]
            stop = start + len(images)
            part_memory = None
            if memory is not None:
                part_memory = memory if len(images) == len(samples) else memory[start:stop]
            part = self._work(source).collate(images, part_memory)
            if part is not part_memory:
                # It did not fit, and a batch is in one piece.
                memory = None
            parts.append(part)
            start = stop
        if len(parts) == 1:
            return parts[0]
        if memory is not None:
            return memory
        return stack([image for part in parts for image in part])  # type: ignore[attr-defined]  # tensors or lists

    def _memory(self, samples: Sequence[Task]) -> torch.Tensor | None:
        """Return memory for the images of a batch; None if their shape is unknown."""
        shape: Shape = self._work(samples[0].stream.source).shape
        first = samples[0].made.image
        if shape is None and isinstance(first, torch.Tensor) and first.dtype == torch.float32:
            shape = first.shape
        return None if shape is None else self._pool.take((len(samples), *shape))

    def _work(self, source: int) -> ImageWork:
        work = self._images[source]
        assert work is not None
        return work

    def _check_shapes(self, samples: Sequence[Task]) -> None:
        """Raise SampleError if images differ in shape."""
        first = samples[0]
        shape = _shape_of(first)
        for task in samples:
            if _shape_of(task) != shape:
                raise self._differing([first, task])

    def _differing(self, tasks: Sequence[Task]) -> SampleError:
        """Return the error for two images of different shapes."""
        if all(self._work(task.stream.source).keeps_size for task in tasks):
            return SampleError(
                f"images of different sizes make no batch: {_shapes(tasks, _pixels)}\n"
                "Give a transform that makes them equal, such as transform=open_clip.image_transform(224, is_train=True);\n"
                "or map=, a function that makes samples: images of different sizes come from it as a list."
            )
        return SampleError(
            f"the image transform returned shapes that make no batch: {_shapes(tasks, str)}\n"
            "Let it return tensors of one shape, for instance by a crop at its end."
        )


def join_results(items: Sequence[Any]) -> object:
    """Join the results of a user's map.

    Tuples, lists and dicts are joined by column, anything else as one column.
    """
    first = items[0]
    if isinstance(first, Mapping):
        return {name: join_results([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return [join_results(list(column)) for column in zip(*items, strict=True)]
    return stack(items)


def stack(items: Sequence[object]) -> object:
    """Return tensors or arrays of equal shape as one tensor, numbers as a tensor.

    Anything else is returned as a list.
    """
    first = items[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf":
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if len(arrays) == len(items) and {(item.shape, item.dtype) for item in arrays} == {
            (first.shape, first.dtype)
        }:
            return torch.from_numpy(np.stack(arrays))
    items = [as_tensor(item) for item in items]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    if len(tensors) == len(items) and {item.shape for item in tensors} == {tensors[0].shape}:
        return torch.stack(tensors)
    numbers = [item for item in items if isinstance(item, (int, float))]
    return torch.tensor(numbers) if len(numbers) == len(items) else list(items)


def _shape_of(task: Task) -> Shape:
    return getattr(task.made.image, "shape", None)


def _shapes(tasks: Sequence[Task], show: Callable[[list[int]], str]) -> str:
    """Return the shape of the image of each of two samples in words."""
    return ", and ".join(
        f"{show(list(_shape_of(task) or ()))} for {samples_text([task])}" for task in tasks
    )


def _pixels(shape: Sequence[int]) -> str:
    height, width, _ = shape
    return f"{width} x {height} pixels"
