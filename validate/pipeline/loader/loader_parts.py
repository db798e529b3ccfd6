"""The objects that the user's loader holds.

Finds its DataLoaders, the part that has its state, and whether it repeats.
"""

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Protocol, cast

from wdsflow.text.shell import escape

from ...tracing.pipeline_stages import (
    TorchLoader,
    draws_shards,
    is_loader,
    is_pipeline,
    repeats_endlessly,
)

_MOST_PARTS = 2000
# Of a list or a dict.
_MOST_ITEMS = 64
# Letters of a key of a dict, in a path.
_MOST_KEY_LETTERS = 40
# They hold nothing that belongs to a loader.
_LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
)
# Methods of an object that can be saved.
_STATE_METHODS = ("state_dict", "load_state_dict")
# Models and optimizers have these methods as well, and also one of these attributes.
_MODEL_ATTRIBUTES = ("named_parameters", "param_groups")


class Stateful(Protocol):
    """An object whose position can be saved and restored."""

    def state_dict(self) -> object:
        """Return the position."""

    def load_state_dict(self, state: object) -> object:
        """Go to a position."""


def parts(loader: object) -> Iterator[tuple[str, object]]:
    """Yield a loader and all objects that it holds, with their paths, nearest first.

    A path is like "dataset.pipeline[2]"; that of the loader itself is "".
    """
    queue = deque([("", loader)])
    seen = {id(loader)}
    while queue:
        path, part = queue.popleft()
        yield path, part
        for step, child in children(part):
            if id(child) not in seen and len(seen) < _MOST_PARTS:
                seen.add(id(child))
                queue.append((f"{path}{step}".lstrip("."), child))


def children(part: object) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, after the step of a path that leads there: ".dataset", "[2]".

    Models and large data are left out.
    """
    if (
        isinstance(part, _LEAVES)
        or hasattr(part, "named_parameters")
        or hasattr(part, "untyped_storage")
    ):
        return
    if isinstance(part, list | tuple):
        for index, item in enumerate(part[:_MOST_ITEMS]):
            yield f"[{index}]", item
    elif isinstance(part, dict):
        # Only of a dict: another mapping may refuse, or compute its values.
        for key in list(part)[:_MOST_ITEMS]:
            yield f"[{escape(repr(key), _MOST_KEY_LETTERS)}]", part[key]
    elif isinstance(part, partial):
        yield ".func", part.func
        yield ".args", part.args
        yield ".keywords", part.keywords
    else:
        yield from attributes(getattr(part, "__dict__", {}))


def attributes(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield attributes, each after the step of a path that leads there: ".dataset"."""
    for name, value in list(values.items()):
        yield f".{name}", value


def loaders_in(loader: object) -> list[tuple[str, TorchLoader]]:
    """Return the torch DataLoaders inside a loader, with their paths."""
    return [(path, part) for path, part in parts(loader) if is_loader(part)]


def stateful_part(loader: object) -> tuple[str | None, Stateful | None]:
    """Return the part that has the state of a loader, with its path.

    It is the loader itself, or the nearest part that is not a model. Both values are None if there
    is none.
    """
    for path, part in parts(loader):
        has_state = all(callable(getattr(type(part), name, None)) for name in _STATE_METHODS)
        is_model = any(hasattr(part, name) for name in _MODEL_ATTRIBUTES)
        if has_state and not is_model:
            return path, cast("Stateful", part)
    return None, None


def with_workers(loader: object, count: int) -> object:
    """Return a loader whose DataLoaders have ``count`` workers; a dataset alone is put into one."""
    loaders = loaders_in(loader)
    data = sys.modules.get("torch.utils.data")
    if not loaders and data is not None and isinstance(loader, data.Dataset):
        return data.DataLoader(loader, batch_size=None, num_workers=count)
    for _, torch_loader in loaders:
        changes: dict[str, object] = {"num_workers": count}
        if not count:
            changes["prefetch_factor"] = None
            changes["persistent_workers"] = False
        elif not torch_loader.num_workers:
            changes["prefetch_factor"] = 2
        # Not by assignments: torch refuses some of these after the constructor.
        vars(torch_loader).update(changes)
    return loader


def has_drawn_shards(loader: object) -> bool:
    """Return whether a part of a loader draws shards with replacement."""
    return any(draws_shards(part) for _, part in parts(loader))


def has_repeated_shards(loader: object) -> bool:
    """Return whether a part of a loader reads its shards again until an epoch is full."""
    return any(is_pipeline(part) and repeats_endlessly(part) for _, part in parts(loader))
