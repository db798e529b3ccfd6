"""The steps of OpenCLIP's training loop, counted where the loop itself counts them."""

import builtins
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class Steps:
    """Stands in for ``enumerate`` in OpenCLIP's loop: counts the batches of one loader on from ``first``.

    The loop computes the step, and with it the learning rate and what it logs, from the number that ``enumerate``
    gives, so that a resumed epoch goes on where it was. ``begun`` is called before the first batch is handed out,
    ``done`` with the number of batches that the loop is through with, each time it asks for more.
    """

    def __init__(
        self, loader: Iterable[Any], first: int, begun: Callable[[], None], done: Callable[[int], None]
    ) -> None:
        self._loader, self._first, self._begun, self._done = loader, first, begun, done
        self.used = False

    def __call__(self, items: Iterable[Any], start: int = 0) -> Iterator[tuple[int, Any]]:
        """Enumerate: the loader from where it is, all else as Python does."""
        return self._count() if items is self._loader else builtins.enumerate(items, start)

    def _count(self) -> Iterator[tuple[int, Any]]:
        self.used = True
        batches = iter(self._loader)
        number = self._first
        while True:
            try:
                # Not kept in a variable: whoever holds a batch keeps the loader from using its memory again.
                yield number, self._take(batches, number)
            except StopIteration:
                return
            number += 1
            self._done(number)

    def _take(self, batches: Iterator[Any], number: int) -> Any:
        batch = next(batches)
        if number == self._first:
            self._begun()
        return batch


@contextmanager
def counted(function: Callable[..., Any], steps: Steps) -> Iterator[None]:
    """Let the module in which ``function`` was written enumerate by ``steps``.

    Raises RuntimeError if the function went through no batch by ``enumerate``: then nothing was counted.
    """
    names = function.__globals__
    names["enumerate"] = steps
    try:
        yield
    finally:
        del names["enumerate"]
    if not steps.used:
        raise RuntimeError(f"{function.__module__}.{function.__qualname__} does not enumerate its batches any more")
