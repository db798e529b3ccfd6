"""The user's module, seen from the function or class in it that was named.

Finds its globals, and the libraries that it imports.
"""

import sys
import threading
from types import ModuleType

from ...tracing.errors import own_line


def globals_of(user_object: object) -> dict[str, tuple[int, int]]:
    """Return each global of the module in which a function or class is defined.

    A change of a global is visible if its identity or length changes.

    Returns:
        Name -> identity of the value, and its length if it is a dict, a list or a set.
    """
    module = _module_of(user_object)
    if module is None:
        return {}
    values = {}
    for name, value in vars(module).items():
        if not name.startswith("__"):
            length = len(value) if isinstance(value, dict | list | set) else 0
            values[name] = id(value), length
    return values


def libraries_of(user_object: object) -> tuple[str, ...]:
    """Return the library modules that the module of a function or class uses.

    A process can import them in advance.

    () if that would make a difference: if threads run, or CUDA is in use.
    """
    module = _module_of(user_object)
    torch = sys.modules.get("torch")
    uses_cuda = torch is not None and torch.cuda.is_initialized()
    if module is None or threading.active_count() > 1 or uses_cuda:
        return ()
    package = _top_package(module.__name__)
    libraries = set()
    for value in vars(module).values():
        attribute = "__name__" if isinstance(value, ModuleType) else "__module__"
        name = str(getattr(value, attribute, ""))
        file = getattr(sys.modules.get(name), "__file__", None)
        if _top_package(name) != package and file and not own_line(file, 1):
            libraries.add(name)
    return tuple(sorted(libraries))


def _module_of(user_object: object) -> ModuleType | None:
    return sys.modules.get(str(getattr(user_object, "__module__", "")))


def _top_package(name: str) -> str:
    return name.partition(".")[0]
