"""Datasets of Hugging Face: workers map slices of them with ``Dataset.map`` itself, into files of their own."""

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wdsflow.mapping.messages import Batch
from wdsflow.mapping.results import weigh_results

_REOPEN = 64 << 20  # bytes of an input that may stay mapped


class SliceSource:
    """Takes slices of a number of rows; workers have the rows themselves."""

    def __init__(self, rows: int) -> None:
        self._rows, self._next = rows, 0

    def take(self, rows: int, room: int) -> Batch | None:
        """Return the next rows."""
        start, self._next = self._next, min(self._next + rows, self._rows)
        return Batch(start, self._next) if self._next > start else None

    def left(self) -> int:
        """Return how many rows are left."""
        return self._rows - self._next


@dataclass
class DatasetWork:
    """Maps slices of a Dataset in a worker. ``dataset`` is a pickled one."""

    dataset: bytes
    fn: Callable[..., Any]
    remove_columns: tuple[str, ...] = ()
    fn_kwargs: Mapping[str, Any] = field(default_factory=dict)
    with_indices: bool = False
    features: Any = None
    results: int = 0

    def begin(self) -> None:
        """Open the dataset."""
        import datasets

        datasets.disable_progress_bars()
        self._open()

    def _open(self) -> None:
        import pickle

        self._dataset = pickle.loads(self.dataset)  # noqa: S301 - written by the process that asks
        self._mapped = _mapped_files()

    def map(self, batch: Batch, path: str) -> bool:
        """Write the results as an Arrow file, and return True; or False where the function changes nothing."""
        if _mapped_files() - self._mapped > _REOPEN:
            self._open()  # lets go of what was read
        part = self._dataset.select(range(batch.start, batch.stop))
        part.map(
            self._function(batch.start),
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
        return os.path.exists(path)

    def _function(self, offset: int) -> Callable[..., Any]:
        import inspect

        if inspect.iscoroutinefunction(self.fn):
            return self._waiting(offset)

        def function(batch: Any, *indices: Any, **more: Any) -> Any:
            found = self.fn(batch, *([number + offset for number in each] for each in indices), **more)
            # Of a batch that datasets decodes when it is asked for, what was not asked for stays encoded.
            left = getattr(found, "keys_to_format", ())
            data = getattr(found, "data", found) if left else found
            self.results = weigh_results({name: data[name] for name in data if name not in left} if left else data)
            return found

        return function

    def _waiting(self, offset: int) -> Callable[..., Any]:
        async def function(batch: Any, *indices: Any, **more: Any) -> Any:
            return await self.fn(batch, *([number + offset for number in each] for each in indices), **more)

        return function


def _mapped_files() -> int:
    """Return the bytes of files that this process has mapped and read, 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_bytes().splitlines():
            if line.startswith(b"RssFile:"):
                return int(line.split()[1]) * 1024
    return 0
