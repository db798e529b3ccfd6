"""The parts of the user's loader: what has a state, which loaders start workers, and what cannot be pickled."""

import inspect
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from multiprocessing.context import set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Protocol, cast

from wdsflow.text.shell import escape

from ..tracing.errors import own_line
from ..tracing.pipeline_steps import TorchLoader, draws_shards, is_loader, is_pipeline, repetition

_MOST_PARTS = 2000
# Of a list.
_MOST_ITEMS = 64
_LEAVES = (str, bytes, int, float, complex, type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_CLASS = r"\s*class "
# Patterns of lines.
DEFINES = r"\s*(?:async )?def {}\b"
SEEDS = r"(?!\s*def\b)[^#]*(?:\b(?:Random|RandomState|default_rng|Generator)|seed\w*)\("
# Attributes of a DataLoader that go to its workers.
_SENT = ("dataset", "collate_fn", "worker_init_fn")


class Stateful(Protocol):
    """An object whose position can be saved and restored."""

    def state_dict(self) -> object:
        """Return the position."""

    def load_state_dict(self, state: object) -> object:
        """Go to a position."""


def parts(loader: object) -> Iterator[tuple[str, object]]:
    """Yield a loader and all objects that it holds, nearest first, with their paths: "dataset.pipeline[2]"; "" for itself."""
    queue, seen = deque([("", loader)]), {id(loader)}
    while queue:
        path, thing = queue.popleft()
        yield path, thing
        for name, child in _children(thing):
            if id(child) not in seen and len(seen) < _MOST_PARTS:
                seen.add(id(child))
                queue.append((f"{path}{name}".lstrip("."), child))


def _children(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of what an object holds; models and large data are left out."""
    if isinstance(thing, _LEAVES) or hasattr(thing, "named_parameters") or hasattr(thing, "untyped_storage"):
        return
    if isinstance(thing, list | tuple):
        yield from ((f"[{index}]", each) for index, each in enumerate(thing[:_MOST_ITEMS]))
    elif isinstance(thing, dict):
        # Another mapping may refuse, or compute its values.
        yield from ((f"[{escape(repr(name), 40)}]", thing[name]) for name in list(thing)[:_MOST_ITEMS])
    elif isinstance(thing, partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    else:
        yield from _attributes(getattr(thing, "__dict__", {}))


def _attributes(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return ((f".{name}", value) for name, value in list(values.items()))


def loaders_in(loader: object) -> list[tuple[str, TorchLoader]]:
    """Return the torch DataLoaders inside a loader, with their paths."""
    return [(path, thing) for path, thing in parts(loader) if is_loader(thing)]


def stateful_part(loader: object) -> tuple[str | None, Stateful | None]:
    """Return what has the state of a loader, with its path: itself, or the nearest part that is no model; None if nothing."""
    for path, thing in parts(loader):
        has = all(callable(getattr(type(thing), name, None)) for name in ("state_dict", "load_state_dict"))
        if has and not any(hasattr(thing, name) for name in ("named_parameters", "param_groups")):
            return path, cast("Stateful", thing)
    return None, None


def with_workers(loader: object, count: int) -> object:
    """Return a loader whose DataLoaders have ``count`` workers; a dataset alone is put into one."""
    data = sys.modules.get("torch.utils.data")
    found = loaders_in(loader)
    if not found and data is not None and isinstance(loader, data.Dataset):
        return data.DataLoader(loader, batch_size=None, num_workers=count)
    for _, each in found:
        changes: dict[str, object] = {"num_workers": count}
        if not count:
            changes |= {"prefetch_factor": None, "persistent_workers": False}
        elif not each.num_workers:
            changes["prefetch_factor"] = 2
        # torch refuses some of these after the constructor.
        vars(each).update(changes)
    return loader


def repeats(loader: object) -> tuple[bool, bool]:
    """Return whether a pipeline draws shards with replacement, and whether it repeats them until an epoch is full."""
    things = [thing for _, thing in parts(loader)]
    resampled = any(map(draws_shards, things))
    return resampled, any(is_pipeline(thing) and repetition(thing)[0] for thing in things)


def unpicklable_parts(loader: object) -> list[str]:
    """Return what keeps the DataLoaders inside a loader from starting a worker by pickle, after the line that made it."""
    found = []
    set_spawning_popen(_Started())  # type: ignore[arg-type]  # otherwise locks, queues and shared values refuse
    try:
        for path, each in loaders_in(loader):
            for name in _SENT:
                line, text = _unpicklable(f"{path}.{name}".lstrip("."), getattr(each, name, None), each, name, set())
                found += [f"{line}: {text}" if line else text] if text else []
    finally:
        set_spawning_popen(None)
    return found


class _Started:
    """In place of a worker that is started: it inherits descriptors as they are."""

    def duplicate_for_child(self, fd: int) -> int:
        return fd

    DupFd = duplicate_for_child


def _unpicklable(path: str, thing: object, owner: object, name: str, seen: set[int]) -> tuple[str, str]:
    """Return the line that made what cannot be pickled, "" if unknown, and a text on it, "" if all can."""
    try:
        ForkingPickler.dumps(thing)
    except Exception:  # noqa: BLE001 - the user's __reduce__ may raise anything
        seen.add(id(thing))
    else:
        return "", ""
    children, line = _children(thing), _made_at(thing, owner, name)
    held = isinstance(thing, list | tuple | dict | partial)
    if not held:
        # As pickle does: what __getstate__ leaves out is not sent.
        with suppress(Exception):
            state = getattr(thing, "__getstate__", lambda: None)()
            children = _attributes(state) if isinstance(state, dict) else children
    for step, child in children:
        if id(child) not in seen:
            inner, text = _unpicklable(f"{path}{step}", child, thing, step.lstrip("."), seen)
            # Otherwise it is deep inside an object of a library.
            if text and (inner or held or not line):
                return inner or line, text
    return line, f"{path} cannot be pickled: it is {_described(thing)}"


def _described(thing: object) -> str:
    name = escape(str(getattr(thing, "__qualname__", type(thing).__qualname__)), 80)
    if isinstance(thing, FunctionType | GeneratorType):
        kind = "generator" if isinstance(thing, GeneratorType) else "local function"
        return "a lambda" if thing.__name__ == "<lambda>" else f"the {kind} {name}"
    if hasattr(thing, "read") and hasattr(thing, "fileno"):
        return f"the open file {escape(str(getattr(thing, 'name', '')), 80)}".strip()
    if "<locals>" in type(thing).__qualname__:
        return f"an object of the local class {name}"
    return f"an object of type {escape(type(thing).__module__, 40)}.{name}"


def _made_at(thing: object, owner: object, name: str) -> str:
    """Return the line of a function, or the one that assigns an attribute; "" if neither is in the user's code."""
    code = getattr(thing, "__code__", None) or getattr(thing, "gi_code", None)
    if code is not None:
        return own_line(code.co_filename, code.co_firstlineno)
    if "<locals>" in type(thing).__qualname__:
        return _line_like(type(thing), _CLASS)
    return _line_like(type(owner), rf"[^#(]*\.{re.escape(name)}\s*(?:,[^=()]*|:[^=]*)?=(?!=)")


def _line_like(thing: object, pattern: str) -> str:
    """Return the first line of the user's function or class, or of its base classes, that begins like a pattern."""
    for each in getattr(thing, "__mro__", (thing,)):
        try:
            file = inspect.getsourcefile(each) or ""  # type: ignore[arg-type]
            lines, first = inspect.getsourcelines(each) if own_line(file, 1) else ([], 0)  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
        found = (number for number, line in enumerate(lines, first) if re.match(pattern, line))
        if (number := next(found, None)) is not None:
            return own_line(file, number)
    return ""


def line_in(loader: object, made_by: object, pattern: str) -> str:
    """Return the user's line about a loader that begins like a pattern; otherwise the call that makes it, or its class."""
    things = [thing for _, thing in parts(loader)]
    sources = list(dict.fromkeys(each if isinstance(each, FunctionType) else type(each) for each in things))
    made = [type(each).__mro__ for each in things if is_pipeline(each) or is_loader(each) or each is loader]
    calls = (_line_like(made_by, rf"[^#]*\b{kind.__name__}\(") for kind in reversed([*chain(*made)]))
    found = chain(
        (_line_like(each, pattern) for each in sources), calls, (_line_like(each, _CLASS) for each in sources)
    )
    return next(filter(None, found), _made_at(made_by, None, ""))


def globals_of(thing: object) -> dict[str, tuple[int, int]]:
    """Return each global of the module in which a function or class is defined, as far as a change of it can be seen."""
    module = sys.modules.get(str(getattr(thing, "__module__", "")))
    names = {} if module is None else vars(module)
    return {
        name: (id(value), len(value) if isinstance(value, dict | list | set) else 0)
        for name, value in names.items()
        if not name.startswith("__")
    }


def libraries_of(thing: object) -> tuple[str, ...]:
    """Return the modules of libraries from which the module of a function or class has something, for an earlier import.

    () if that would make a difference: if threads run, or CUDA is in use.
    """
    torch, module = sys.modules.get("torch"), sys.modules.get(str(getattr(thing, "__module__", "")))
    if module is None or threading.active_count() > 1 or (torch is not None and torch.cuda.is_initialized()):
        return ()
    used, own = vars(module).values(), module.__name__.partition(".")[0]
    names = {str(getattr(each, "__name__" if isinstance(each, ModuleType) else "__module__", "")) for each in used}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names if name.partition(".")[0] != own}
    return tuple(sorted(name for name, file in files.items() if file and not own_line(file, 1)))
