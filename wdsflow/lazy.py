"""Lazy imports, and a way to keep Arrow and DuckDB from importing pandas."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package (PEP 562).

    Args:
        package: name of the package.
        modules: for each public name, the module that has it: below the package, or with its full
            name.

    >>> get, names = lazy_names("wdsflow", {"bounded_map": "mapping"})
    >>> "bounded_map" in names()
    True
    >>> get("nothing")
    Traceback (most recent call last):
    AttributeError: module 'wdsflow' has no attribute 'nothing'
    """

    def getter(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        return getattr(
            import_module(module if module.startswith("wdsflow.") else f"{package}.{module}"), name
        )

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getter, names


def leave_pandas_out() -> None:
    """Hide pandas from Arrow and DuckDB when wdsflow calls them.

    Only for processes that belong to wdsflow.

    Arrow, and DuckDB before 2.0, import pandas with the first list that they convert, only to
    recognise objects of pandas, which wdsflow does not have. That takes half a second. Others can
    still import pandas, and ``to_pandas`` and ``from_pandas`` work. But after a list of ours
    ``pa.array`` takes their Series for any sequence: NaN stays NaN. So it is not for processes that
    train.
    """
    if not any(isinstance(finder, _LeftOut) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LeftOut())


class _LeftOut:
    """A finder that reports pandas as missing to our code and to Arrow."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leave all other names to the next finder. Raises ModuleNotFoundError."""
        del path, target
        if name == "pandas" and _who_imports().partition(".")[0] == "wdsflow":
            raise ModuleNotFoundError("pandas is left out of this process", name=name)
        return None


def _who_imports() -> str:
    """Return the module that runs the import, on behalf of Arrow or not."""
    frame = sys._getframe(2)  # noqa: SLF001
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("importlib.", "pyarrow")):
            return module
        frame = frame.f_back
    return ""
