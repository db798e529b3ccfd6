"""The stages of a pipeline: their kinds, names and arguments.

Neither webdataset nor torch is imported.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Protocol, SupportsInt, TypeGuard

from wdsflow.text.shell import escape

# Letters of a stage as code.
_MOST_LETTERS = 60
# Items of a list that are shown.
_MOST_ITEMS = 3
# Of webdataset's batched.
_DEFAULT_BATCH = 20
# Arguments that are not shown.
_NOT_SHOWN = ("handler", "collation_fn")
# webdataset takes so large a number for one without end.
_ENDLESS = sys.maxsize // 2

# Runs a stage on its source.
Call = Callable[..., Iterable[object]]


class WdsPipeline(Protocol):
    """A ``wds.DataPipeline``."""

    pipeline: list[object]
    invoke: Call


class TorchLoader(Protocol):
    """A torch ``DataLoader``."""

    dataset: object
    num_workers: int
    batch_size: int | None
    drop_last: bool
    sampler: Iterable[object]
    batch_sampler: Iterable[Iterable[object]] | None
    collate_fn: Callable[[object], object]


def is_pipeline(thing: object) -> TypeGuard[WdsPipeline]:
    """Return whether an object is a ``wds.DataPipeline`` or has its structure."""
    return isinstance(getattr(thing, "pipeline", None), list) and hasattr(thing, "invoke")


def is_loader(thing: object) -> TypeGuard[TorchLoader]:
    """Return whether an object is a torch ``DataLoader``."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(thing, data.DataLoader)


def is_nested(stage: object) -> bool:
    """Return whether an object has stages of its own."""
    return is_pipeline(stage) or is_loader(stage)


def bare_name(stage: object) -> str:
    """Return the usual name of a stage: ``select`` for webdataset's curried ``_select``.

    >>> from functools import partial
    >>> bare_name(partial(sorted, reverse=True)), bare_name(["a.tar"])
    ('sorted', 'list')
    """
    # Of a curried filter of webdataset, and of a partial.
    attribute = "f" if hasattr(stage, "kw") else "func"
    inner = getattr(stage, attribute, None)
    function = inner if callable(inner) else stage
    name = getattr(function, "__name__", None) or type(function).__name__
    return escape(name.strip("_") or name, _MOST_LETTERS)


def title(stage: object) -> str:
    """Describe a stage as code, without its handler: ``batched(64, partial=False)``."""
    if is_loader(stage):
        return f"DataLoader(batch_size={stage.batch_size}, num_workers={stage.num_workers})"
    values = getattr(stage, "args", None)
    options = getattr(stage, "kw", getattr(stage, "keywords", None))
    if not isinstance(values, tuple) or not isinstance(options, dict):
        return bare_name(stage)
    arguments = [_brief(value) for value in values]
    for name, value in options.items():
        if name not in _NOT_SHOWN and value is not None:
            arguments.append(f"{name}={_brief(value)}")
    return escape(f"{bare_name(stage)}({', '.join(arguments)})", _MOST_LETTERS)


def _brief(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple | dict | set) and len(value) > _MOST_ITEMS:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_brief(item) for item in value) + "]"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__


def positional_arguments(stage: object) -> tuple[object, ...]:
    """Return the positional arguments of a stage, after the source."""
    values = getattr(stage, "args", ())
    return values if isinstance(values, tuple) else ()


def named_arguments(stage: object) -> dict[str, object]:
    """Return the named arguments of a curried stage of webdataset."""
    values = getattr(stage, "kw", {})
    return values if isinstance(values, dict) else {}


def argument(stage: object, name: str, position: int, default: object = None) -> object:
    """Return an argument of a stage by name or position, or the default."""
    values = positional_arguments(stage)
    if len(values) > position:
        return values[position]
    return named_arguments(stage).get(name, default)


def batch_size(stage: object) -> int:
    """Return how many items a stage or a DataLoader puts into one; 0 if it makes no batches."""
    if is_loader(stage):
        return stage.batch_size or 0
    if bare_name(stage) != "batched":
        return 0
    size = argument(stage, "batchsize", 0)
    return int(size) if isinstance(size, SupportsInt) else _DEFAULT_BATCH


def module_of(thing: object) -> str:
    """Return the module of a function, or of the class of an object."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def draws_shards(source: object) -> bool:
    """Return whether a source of webdataset draws shards with replacement, without end."""
    count = getattr(source, "nshards", 0)
    return isinstance(count, int) and count > _ENDLESS


def repeats_endlessly(pipeline: WdsPipeline) -> bool:
    """Return whether a pipeline repeats without end."""
    return bool(getattr(pipeline, "repetitions", 1) > _ENDLESS)


def ends_at_empty_pass(pipeline: WdsPipeline) -> bool:
    """Return whether a pipeline that repeats ends after a pass without output.

    Some versions of webdataset count the output of each pass.
    """
    code = getattr(getattr(type(pipeline), "iterator", None), "__code__", None)
    return code is not None and "count" in code.co_varnames
