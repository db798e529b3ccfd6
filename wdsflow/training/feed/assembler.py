"""From samples to a batch. Imports numpy and torch."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch

from wdsflow.training.columns import TEXT, Columns
from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, as_tensor
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.field_fixes import at
from wdsflow.training.workers.sample_work import MadeSample

from .batch_pool import BatchPool

Batch: TypeAlias = object  # a list of columns, a dict of them by name, or what the user's map makes, joined


class Assembler:
    """Joins samples into a batch: a list of columns, or a dict of them. ``images``: how those of each source are joined."""

    def __init__(self, images: Sequence[ImageWork | None], columns: Columns) -> None:
        self._images, self._columns, self._pool = images, columns, BatchPool()

    def __call__(self, samples: Sequence[MadeSample], tasks: Sequence[Task]) -> Batch:
        """Return a batch of the samples. Raises SampleError if their images differ in shape."""
        if self._columns.map is not None:
            try:
                return joined([made.more[0] for made in samples])
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise SampleError(f"map returned samples that make no batch: {error!r}, among {at(tasks)}") from error
        made = [self._column(number, samples, tasks) for number in self._columns.order]
        return made if self._columns.names is None else dict(zip(self._columns.names, made, strict=True))

    def _column(self, number: int, samples: Sequence[MadeSample], tasks: Sequence[Task]) -> object:
        if number >= 0:
            return stack([made.more[number] for made in samples])
        return stack([made.text for made in samples]) if number == TEXT else self._pictures(samples, tasks)

    def _pictures(self, samples: Sequence[MadeSample], tasks: Sequence[Task]) -> object:
        shapes = [getattr(made.image, "shape", None) for made in samples]
        other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is not None:
            raise self._differing([tasks[0], tasks[other]], [shapes[0], shapes[other]])
        first, work = samples[0].image, self._images[tasks[0].stream.source]
        assert work is not None
        shape: tuple[int, ...] | None = work.shape
        if shape is None and isinstance(first, torch.Tensor) and first.dtype == torch.float32:
            shape = first.shape
        room = None if shape is None else self._pool.take((len(samples), *shape))
        parts, inside = [], True
        for source, group in groupby(range(len(samples)), lambda number: tasks[number].stream.source):
            run, work = list(group), self._images[source]
            assert work is not None
            own = None if room is None else room if len(run) == len(samples) else room[run[0] : run[-1] + 1]
            parts.append(work.collate([samples[number].image for number in run], own))
            inside = inside and parts[-1] is own
        if len(parts) == 1:
            return parts[0]
        return room if inside and room is not None else stack([each for part in parts for each in part])

    def _differing(self, tasks: Sequence[Task], shapes: Sequence[tuple[int, ...] | None]) -> SampleError:
        """Return the error for two images of different shapes."""
        works = [self._images[task.stream.source] for task in tasks]
        if all(work is not None and work.keeps_size for work in works):
            return SampleError(
                f"images of different sizes make no batch: {_each(tasks, shapes, _pixels)}\n"
                "Give a transform that makes them equal, such as transform=open_clip.image_transform(224, is_train=True);\n"
                "or map=, a function that makes samples: images of different sizes come from it as a list."
            )
        return SampleError(
            f"the image transform returned shapes that make no batch: {_each(tasks, shapes, str)}\n"
            "Let it return tensors of one shape, for instance by a crop at its end."
        )


def _each(tasks: Sequence[Task], shapes: Sequence[tuple[int, ...] | None], show: Callable[[list[int]], str]) -> str:
    """Return the shape of the image of each of two samples in words."""
    shown = [f"{show(list(shape or ()))} for {at([task])}" for task, shape in zip(tasks, shapes, strict=True)]
    return ", and ".join(shown)


def _pixels(shape: Sequence[int]) -> str:
    height, width, _ = shape
    return f"{width} x {height} pixels"


def joined(items: Sequence[Any]) -> Batch:
    """Join what a user's map returned for each sample: tuples, lists and dicts by column, anything else as one column."""
    first = items[0]
    if isinstance(first, Mapping):
        return {name: joined([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return [joined(list(column)) for column in zip(*items, strict=True)]
    return stack(items)


def stack(items: Sequence[object]) -> object:
    """Return tensors or arrays of one shape as one tensor, numbers as a tensor, anything else as a list."""
    first = items[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf":
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if len(arrays) == len(items) and {(item.shape, item.dtype) for item in arrays} == {(first.shape, first.dtype)}:
            return torch.from_numpy(np.stack(arrays))
    items = [as_tensor(item) for item in items]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    if len(tensors) == len(items) and {item.shape for item in tensors} == {tensors[0].shape}:
        return torch.stack(tensors)
    numbers = [item for item in items if isinstance(item, (int, float))]
    return torch.tensor(numbers) if len(numbers) == len(items) else list(items)
