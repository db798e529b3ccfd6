"""Facts about models that one process computes for others."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ModelFact(Generic[T]):
    """Decorates a function that computes a fact about a model.

    A fact that another process shared takes precedence.

    Decoders with a shared fact need not import the libraries that compute it.
    """

    def __init__(self, compute: Callable[..., T]) -> None:
        self._compute = compute
        # By the arguments of the function.
        self._shared: dict[tuple[str, ...], T] = {}

    def __call__(self, *model: str) -> T:
        """Return the fact. Raises the errors of the function."""
        if model in self._shared:
            return self._shared[model]
        return self._compute(*model)

    def share(self, fact: T, *model: str) -> None:
        """Keep a fact that another process computed."""
        self._shared[model] = fact

    def is_shared(self, *model: str) -> bool:
        """Return whether another process computed the fact."""
        return model in self._shared
