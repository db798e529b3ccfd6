"""Prove that WebDataset shards will train, before a GPU is booked."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wdsflow.mapping.bounded_map import bounded_map

__all__ = ["__version__", "bounded_map"]


def __getattr__(name: str) -> Any:  # what takes time to import is imported when it is asked for
    if name == "bounded_map":
        from wdsflow.mapping.bounded_map import bounded_map

        return bounded_map
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
