"""Names of OpenCLIP's modules that have another value during a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def replace_name(module: ModuleType, name: str, value: object) -> Iterator[None]:
    """Give a name of a module another value for the time of a block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
