"""Slices of a Hugging Face Dataset: which one is next, and the work that maps it."""

import inspect
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wdsflow.memory.usage import mapped_file_bytes

from .column_kinds import Features
from .function_work import FunctionWork
from .messages import RowBatch
from .result_size import estimated_result_size

# Bytes of an input that may stay mapped into memory.
_REOPEN = 64 << 20


class SliceSource:
    """Slices of a Dataset, which the workers open themselves."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._next = 0

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows."""
        start = self._next
        self._next = min(start + rows, self._rows)
        if self._next == start:
            return None
        return RowBatch(start, self._next)

    def rows_left(self) -> int:
        """Return how many rows are left."""
        return self._rows - self._next


@dataclass
class DatasetWork(FunctionWork):
    """Maps slices of a Dataset, which is pickled, with ``Dataset.map`` in a worker."""

    dataset: bytes = b""
    features: Features = None

    def begin(self) -> None:
        """Open the dataset."""
        import datasets

        datasets.disable_progress_bars()
        self._open()

    def map(self, batch: RowBatch, path: str) -> int | None:
        """Write the results as an Arrow file, and return the number of rows.

        Returns None if the function changes nothing.
        """
        if mapped_file_bytes() - self._mapped > _REOPEN:
            # Unmaps the pages that were read.
            self._open()
        rows = self._dataset.select(range(batch.start, batch.stop))
        results = rows.map(
            self._with_row_offset(batch.start),
            with_indices=self.with_indices,
            batched=True,
            batch_size=len(batch),
            remove_columns=list(self.remove_columns) or None,
            features=self.features,
            fn_kwargs=dict(self.fn_kwargs),
            cache_file_name=path,
            load_from_cache_file=False,
            keep_in_memory=False,
            new_fingerprint=f"{batch.start:016x}",
        )
        return len(results) if os.path.exists(path) else None

    def _open(self) -> None:
        self._dataset = pickle.loads(self.dataset)  # noqa: S301 - by the parent
        self._mapped = mapped_file_bytes()

    def _with_row_offset(self, offset: int) -> Callable[..., object]:
        """Return the user's function with row numbers shifted by ``offset``.

        It also records the size of its results, unless it is a coroutine function.
        """

        async def call_async(batch: object, *indices: list[int], **arguments: object) -> object:
            return await self.fn(batch, *_shifted(indices, offset), **arguments)

        def call(batch: object, *indices: list[int], **arguments: object) -> object:
            returned = self.fn(batch, *_shifted(indices, offset), **arguments)
            self.results = estimated_result_size(_computed_columns(returned))
            return returned

        return call_async if inspect.iscoroutinefunction(self.fn) else call


def _shifted(indices: tuple[list[int], ...], offset: int) -> list[list[int]]:
    """Return lists of row numbers, of which there is one or none, from an offset on."""
    return [[number + offset for number in numbers] for numbers in indices]


def _computed_columns(returned: Any) -> object:
    """Return what a function returned, without the columns that are still encoded.

    datasets decodes a batch lazily: columns of it that were not read stay encoded.
    """
    encoded = getattr(returned, "keys_to_format", ())
    if not encoded:
        return returned
    columns = getattr(returned, "data", returned)
    return {name: columns[name] for name in columns if name not in encoded}
