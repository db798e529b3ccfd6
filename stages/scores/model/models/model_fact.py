"""Facts about models that one process finds for all."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ModelFact(Generic[T]):
    """A fact about a model, by its names: what another process has shared, otherwise what ``find`` returns.

    Decoders with a shared fact need not import the libraries that find it.
    """

    def __init__(self, find: Callable[..., T]) -> None:
        self._find, self._shared = find, dict[tuple[str, ...], T]()

    def __call__(self, *model: str) -> T:
        """Return the fact. Raises what ``find`` raises."""
        return self._shared[model] if model in self._shared else self._find(*model)

    def share(self, fact: T, *model: str) -> None:
        """Keep what another process found."""
        self._shared[model] = fact

    def is_shared(self, *model: str) -> bool:
        """Return whether another process found it."""
        return model in self._shared
