"""A function over many rows, within a bound on the memory of all processes."""

from typing import TYPE_CHECKING

__all__ = ["Mapped", "MappingError", "bounded_map"]

if TYPE_CHECKING:
    from .map_messages import MappingError
    from .run_map import Mapped, bounded_map
else:
    _MODULES = {"MappingError": "map_messages", "Mapped": "run_map", "bounded_map": "run_map"}

    def __getattr__(
        name: str,
    ) -> object:  # each is imported when it is asked for: other modules of this package need less
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
