"""Datasets that are no iterables, as iterables: map-style ones, and those of Ray."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeGuard


class Items:
    """The items of a map-style dataset: by its own keys, or by number."""

    def __init__(self, dataset: Mapping[object, object]) -> None:
        self.dataset = dataset
        self.__name__ = type(dataset).__name__
        # It is called before each item with its number or key.
        self.before_item: Callable[[object], object] = id

    def __iter__(self) -> Iterator[object]:
        keys = getattr(self.dataset, "keys", None)
        indices: Iterable[object] = keys() if callable(keys) else range(len(self.dataset))
        for index in indices:
            self.before_item(index)
            yield self.dataset[index]


class RayDataset(Protocol):
    """A Ray Dataset, without an import of Ray."""

    def iter_rows(self) -> Iterable[object]:
        """Return an iterable that runs the dataset and yields its rows."""


def is_map_style(thing: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether an object gives access to items by number or key only.

    An object that has keys iterates over these.
    """
    kind = type(thing)
    if isinstance(thing, type) or not hasattr(kind, "__getitem__"):
        return False
    if hasattr(kind, "__iter__"):
        return callable(getattr(thing, "keys", None))
    if hasattr(kind, "__len__"):
        return True
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(thing, data.Dataset)


def is_ray(thing: object) -> TypeGuard[RayDataset]:
    """Return whether an object is a Ray Dataset."""
    return type(thing).__module__.startswith("ray.data") and hasattr(thing, "iter_rows")
