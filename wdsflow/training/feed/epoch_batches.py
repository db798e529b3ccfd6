"""One pass over a feed."""

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any


class EpochBatches(Iterator[Any]):
    """Iterates over the batches of one pass. ``last_given``: returns whether the last of them has been given.

    Its state is for torchdata's StatefulDataLoader, which stores it beside that of the feed. The
    feed's state after the last batch of an epoch continues with the next epoch: only the state of
    the pass says that this one has no more.
    """

    def __init__(self, batches: Generator[Any, None, None], last_given: Callable[[], bool]) -> None:
        self._batches, self._last_given = batches, last_given
        self._over = False

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        return next(self._batches)

    def close(self) -> None:
        """End the pass."""
        self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Return whether the pass has no more batches."""
        return {"over": self._over or self._last_given()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give no batch if the pass of this state had none left."""
        self._over = bool(state["over"])
