"""Collate functions, for one sample at a time."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..tracing.meter import rows_in
from ..tracing.pipeline_steps import LEFT_OUT

_good: list[Any] = []  # the latest item that was taken alone: the process builds the pipeline again for each run


class AloneInBatch:
    """Tells what a collate function makes of one item, as if it came in a batch of the usual size.

    Many leave out items that are None, and cannot make a batch of none. So an item that is refused alone is tried again
    among others that are not.

    Args:
        collate: from a list of items to a batch.
        size: items of a batch.
        note: called when an item is left out.
    """

    def __init__(self, collate: Callable[[list[Any]], Any], size: int, note: Callable[[], object]) -> None:
        self.collate, self.size, self.note = collate, size, note

    def __call__(self, items: list[Any]) -> Any:
        """Return the batch, or LEFT_OUT. Raises what the function raises for a batch that holds the item."""
        try:
            batch = self.collate(list(items))
        except Exception:
            if self.size < 2 or not _good:
                raise
            others = _good * (self.size - 1)
            batch = self.collate([*others, *items])
            if rows_in(batch) != len(others):
                return batch
        else:
            if not _is_empty(batch):
                _good[:] = items
                return batch
        self.note()
        return LEFT_OUT


def without_left_out(stage: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
    """Return the function of a stage that gives batches, without those for items that are left out."""

    @functools.wraps(stage)
    def batches(*arguments: Any, **options: Any) -> Iterator[Any]:
        return (batch for batch in stage(*arguments, **options) if batch is not LEFT_OUT)

    return batches


def _is_empty(batch: Any) -> bool:
    """Return whether a batch is None, or holds nothing: [], ([], []), {"image": []}."""
    if batch is None:
        return True
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    if isinstance(parts, list | tuple):
        return all(isinstance(part, list | tuple) and not part for part in parts)
    return False
