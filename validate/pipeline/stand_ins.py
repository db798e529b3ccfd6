"""Replacements for parts of a probed pipeline: iterables of samples, and collate functions for one sample."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeGuard

from ..tracing.meter import rows_in
from ..tracing.pipeline_steps import LEFT_OUT, Call, Loader


class Items:
    """The items of a map-style dataset: in the order of a sampler, by its own keys, or by number."""

    def __init__(self, dataset: Mapping[object, object], order: Iterable[object] | None = None) -> None:
        self.dataset, self.order = dataset, order

    def __iter__(self) -> Iterator[object]:
        keys = getattr(self.dataset, "keys", None)
        own = keys() if callable(keys) else range(len(self.dataset))
        return (self.dataset[index] for index in (own if self.order is None else self.order))


class RayDataset(Protocol):
    """A Ray Dataset, without an import of Ray."""

    def iter_rows(self) -> Iterable[object]:
        """Return an iterable that runs the dataset and yields its rows."""


def is_map_style(thing: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether an object gives access to items by number or key only; one with keys iterates over these."""
    kind = type(thing)
    data = sys.modules.get("torch.utils.data")
    if isinstance(thing, type) or not hasattr(kind, "__getitem__"):
        return False
    if hasattr(kind, "__iter__"):
        return callable(getattr(thing, "keys", None))
    return hasattr(kind, "__len__") or (data is not None and isinstance(thing, data.Dataset))


def is_ray(thing: object) -> TypeGuard[RayDataset]:
    """Return whether an object is a Ray Dataset."""
    return type(thing).__module__.startswith("ray.data") and hasattr(thing, "iter_rows")


def order_of(loader: Loader) -> Iterator[object]:
    """Yield the numbers or keys of the items that a loader takes from a map-style dataset."""
    if loader.batch_size is None and loader.batch_sampler is not None:
        for batch in loader.batch_sampler:
            yield from batch
    else:
        yield from loader.sampler


_good: list[object] = []  # the latest item that was accepted alone; global, as each run builds the pipeline again


class AloneInBatch:
    """Applies a collate function to one item as if it were in a batch of the usual size.

    Many drop items that are None, and fail for an empty batch. An item that is refused alone is therefore tried again
    among accepted ones. ``size``: items of a batch; ``note`` is called when an item is dropped.
    """

    def __init__(self, collate: Callable[[list[object]], object], size: int, note: Callable[[], object]) -> None:
        self.collate, self.size, self.note = collate, size, note

    def __call__(self, items: list[object]) -> object:
        """Return the batch, or LEFT_OUT. Raises what the function raises for a batch that holds the item."""
        try:
            batch = self.collate(list(items))
        except Exception:
            if self.size < 2 or not _good:
                raise
            others = _good * (self.size - 1)
            batch = self.collate([*others, *items])
            if rows_in(batch) != len(others):
                return batch
        else:
            if not _is_empty(batch):
                _good[:] = items
                return batch
        self.note()
        return LEFT_OUT


def without_left_out(stage: Call) -> Call:
    """Return the function of a batching stage without the batches of dropped items."""

    @functools.wraps(stage)
    def batches(*arguments: object, **options: object) -> Iterator[object]:
        return (batch for batch in stage(*arguments, **options) if batch is not LEFT_OUT)

    return batches


def _is_empty(batch: object) -> bool:
    """Return whether a batch is None or empty: [], ([], []), {"image": []}."""
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    return batch is None or (
        isinstance(parts, list | tuple) and all(isinstance(part, list | tuple) and not part for part in parts)
    )
