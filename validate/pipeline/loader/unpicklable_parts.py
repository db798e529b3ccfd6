"""Finds parts of DataLoaders that cannot be pickled.

They keep a loader from starting workers by spawn or forkserver.
"""

from contextlib import suppress
from functools import partial
from multiprocessing.context import set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, GeneratorType
from typing import NamedTuple

from wdsflow.text.shell import escape

from .loader_parts import attributes, children, loaders_in
from .source_lines import defining_line

# Attributes of a DataLoader that go to its workers.
_SENT = ("dataset", "collate_fn", "worker_init_fn")
_CONTAINERS = (list, tuple, dict, partial)
_MOST_NAME_LETTERS, _MOST_MODULE_LETTERS = 80, 40


class _Unpicklable(NamedTuple):
    """An object that cannot be pickled."""

    # The user's line that made it; "" if unknown.
    line: str
    # Its path in the loader, and what it is.
    description: str


def unpicklable_parts(loader: object) -> list[str]:
    """Return the parts that keep DataLoaders from starting a worker by pickle.

    Each text begins with the line that made the part.
    """
    texts = []
    # Otherwise locks, queues and shared values refuse to be pickled.
    set_spawning_popen(_StartedWorker())  # type: ignore[arg-type]
    try:
        for path, torch_loader in loaders_in(loader):
            for name in _SENT:
                value = getattr(torch_loader, name, None)
                part = _unpicklable_in(
                    f"{path}.{name}".lstrip("."), value, torch_loader, name, set()
                )
                if part is not None:
                    texts.append(
                        f"{part.line}: {part.description}" if part.line else part.description
                    )
    finally:
        set_spawning_popen(None)
    return texts


class _StartedWorker:
    """In place of a worker that is started: it inherits descriptors as they are."""

    def duplicate_for_child(self, fd: int) -> int:
        return fd

    DupFd = duplicate_for_child


def _unpicklable_in(
    path: str, part: object, owner: object, name: str, seen: set[int]
) -> _Unpicklable | None:
    """Return the innermost object that keeps a part from being pickled; None if nothing does.

    Args:
        path: of the part in the loader.
        part: to be pickled.
        owner: what holds the part.
        name: of the part in its owner.
        seen: identities of parts that are being looked at.
    """
    try:
        ForkingPickler.dumps(part)
    except Exception:  # noqa: BLE001 - the user's __reduce__ may raise anything
        seen.add(id(part))
    else:
        return None
    line = defining_line(part, owner, name)
    is_container = isinstance(part, _CONTAINERS)
    for step, child in _pickled_children(part):
        if id(child) in seen:
            continue
        inner = _unpicklable_in(f"{path}{step}", child, part, step.lstrip("."), seen)
        # Without a line of the user it is deep inside an object of a library: then the object
        # itself says more.
        if inner is not None and (inner.line or is_container or not line):
            return _Unpicklable(inner.line or line, inner.description)
    return _Unpicklable(line, f"{path} cannot be pickled: it is {_described(part)}")


def _pickled_children(part: object) -> list[tuple[str, object]]:
    """Return the parts of an object that pickle would send.

    What its ``__getstate__`` leaves out is not sent.
    """
    if not isinstance(part, _CONTAINERS):
        # The user's method may raise anything.
        with suppress(Exception):
            state = getattr(part, "__getstate__", lambda: None)()
            if isinstance(state, dict):
                return list(attributes(state))
    return list(children(part))


def _described(part: object) -> str:
    name = escape(str(getattr(part, "__qualname__", type(part).__qualname__)), _MOST_NAME_LETTERS)
    if isinstance(part, FunctionType | GeneratorType):
        if part.__name__ == "<lambda>":
            return "a lambda"
        return (
            f"the generator {name}"
            if isinstance(part, GeneratorType)
            else f"the local function {name}"
        )
    if hasattr(part, "read") and hasattr(part, "fileno"):
        file = escape(str(getattr(part, "name", "")), _MOST_NAME_LETTERS)
        return f"the open file {file}".strip()
    if "<locals>" in type(part).__qualname__:
        return f"an object of the local class {name}"
    return f"an object of type {escape(type(part).__module__, _MOST_MODULE_LETTERS)}.{name}"
