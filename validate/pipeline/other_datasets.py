"""Datasets that are no iterables of samples as they are: map-style ones, and those of Ray."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any


class Items:
    """The items of a map-style dataset: in the order of a sampler, by its own keys, or by number."""

    def __init__(self, dataset: Any, order: Iterable[Any] | None = None) -> None:
        self.dataset, self.order = dataset, order

    def __iter__(self) -> Iterator[Any]:
        keys = getattr(self.dataset, "keys", None)
        own = keys() if callable(keys) else range(len(self.dataset))
        return (self.dataset[index] for index in (own if self.order is None else self.order))


class Rows:
    """The rows of a Ray Dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset.iter_rows())


def is_map_style(thing: Any) -> bool:
    """Return whether an object gives its items by number or key only; one with keys iterates over these."""
    kind = type(thing)
    data = sys.modules.get("torch.utils.data")
    if isinstance(thing, type) or not hasattr(kind, "__getitem__"):
        return False
    if hasattr(kind, "__iter__"):
        return callable(getattr(thing, "keys", None))
    return hasattr(kind, "__len__") or (data is not None and isinstance(thing, data.Dataset))


def is_indexed(loader: Any) -> bool:
    """Return whether a loader takes the items of its dataset by number or key, as torch decides it."""
    data: Any = sys.modules["torch.utils.data"]
    return not isinstance(loader.dataset, data.IterableDataset)


def is_ray(thing: Any) -> bool:
    """Return whether an object is a Ray Dataset."""
    return type(thing).__module__.startswith("ray.data") and hasattr(thing, "iter_rows")


def order_of(loader: Any) -> Iterator[Any]:
    """Yield the numbers or keys of the items that a loader takes from a map-style dataset."""
    if loader.batch_size is None and loader.batch_sampler is not None:
        for batch in loader.batch_sampler:
            yield from batch
    else:
        yield from loader.sampler


def start_ray() -> None:
    """Start a Ray of this machine alone, for a pipeline that imports Ray: the start takes longer than a probe may."""
    ray = sys.modules.get("ray")
    if ray is not None and not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def cause_of(error: BaseException) -> BaseException:
    """Return the error of the user's code that Ray wraps into its own, or the error itself."""
    for _ in range(8):
        inner = getattr(error, "cause", None) if type(error).__module__.startswith("ray.") else None
        inner = inner or (error.__cause__ if type(error).__module__.startswith("ray.") else None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    return error
