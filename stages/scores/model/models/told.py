"""Facts about models that one process finds out for all."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Told(Generic[T]):
    """A fact about a model, by its names: what another process told, otherwise what ``find`` finds out.

    Decoders that were told need not import the libraries that find it out.
    """

    def __init__(self, find: Callable[..., T]) -> None:
        self._find, self._told = find, dict[tuple[str, ...], T]()

    def __call__(self, *model: str) -> T:
        """Return the fact. Raises what finding it out raises."""
        return self._told[model] if model in self._told else self._find(*model)

    def tell(self, fact: T, *model: str) -> None:
        """Keep what another process found out."""
        self._told[model] = fact

    def was_told(self, *model: str) -> bool:
        """Return whether another process found it out."""
        return model in self._told
