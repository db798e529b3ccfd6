"""A function over many rows, within a limit on the memory of all processes."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["Mapped", "MappingError", "bounded_map"]

if TYPE_CHECKING:
    from .errors import MappingError
    from .run_map import Mapped, bounded_map
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"MappingError": "errors", "Mapped": "run_map", "bounded_map": "run_map"}
    )
