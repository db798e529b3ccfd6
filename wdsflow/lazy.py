"""Public names of a package that are imported on first use: other modules of the package then need less."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a package (PEP 562).

    Args:
        package: name of the package.
        modules: for each public name, the module that has it: below the package, or with its full name.

    >>> lazy_names("wdsflow", {"bounded_map": "mapping"})("nothing")
    Traceback (most recent call last):
    AttributeError: module 'wdsflow' has no attribute 'nothing'
    """

    def getter(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        return getattr(import_module(module if module.startswith("wdsflow.") else f"{package}.{module}"), name)

    return getter
