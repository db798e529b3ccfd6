"""Datasets of Hugging Face: workers map slices of them with ``Dataset.map`` itself, into files of their own."""

import contextlib
import ctypes
import inspect
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wdsflow.memory.usage import mapped_files

from .map_worker import RowBatch
from .sizing import weigh_results

_REOPEN = 64 << 20  # bytes of an input that may stay mapped
_DONT_NEED = 4  # MADV_DONTNEED of Linux
_SMALL = 1 << 20  # bytes of a table that travels to workers


class SliceSource:
    """Takes slices of a number of rows; workers have the rows themselves."""

    def __init__(self, rows: int) -> None:
        self._rows, self._next = rows, 0

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows."""
        start, self._next = self._next, min(self._next + rows, self._rows)
        return RowBatch(start, self._next) if self._next > start else None

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
        self._dataset = pickle.loads(self.dataset)  # noqa: S301 - written by the process that asks
        self._mapped = mapped_files()

    def map(self, batch: RowBatch, path: str) -> int | None:
        """Write the results as an Arrow file, and return their rows; or None where the function changes nothing."""
        if mapped_files() - self._mapped > _REOPEN:
            self._open()  # lets go of what was read
        part = self._dataset.select(range(batch.start, batch.stop))
        found = part.map(
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
        return len(found) if os.path.exists(path) else None

    def _function(self, offset: int) -> Callable[..., Any]:
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


@contextlib.contextmanager
def on_disk(dataset: Any, folder: Path) -> Iterator[Any]:
    """Return the dataset as one that is in files, so that workers do not get a copy of it each.

    What is in memory is written into ``folder``, for as long as the context is open.
    """
    import datasets

    given = Path(tempfile.mkdtemp(prefix="given-", dir=folder))
    try:
        form = dict(dataset.format)
        found = datasets.Dataset(
            _stored(dataset.data, given),
            info=dataset.info,
            split=dataset.split,
            indices_table=None if dataset._indices is None else _stored(dataset._indices, given),  # noqa: SLF001
        )
        let_go([file["filename"] for file in dataset.cache_files])
        yield found.with_format(form["type"], form["columns"], form["output_all_columns"], **form["format_kwargs"])
    finally:
        shutil.rmtree(given, ignore_errors=True)


def let_go(files: Collection[str]) -> None:
    """Let go of what this process has read of files that it has mapped for reading; it is read again when it is needed.

    Nothing happens where the system is no Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    wanted = {os.path.realpath(file) for file in files}
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            span, rights, *_, last = line.split(maxsplit=5)  # the last is the path, where there is one
            if rights.startswith("r-") and last in wanted:  # what cannot be written to is as it is in the file
                start, end = (int(word, 16) for word in span.split("-"))
                advise(start, end - start, _DONT_NEED)


def _stored(table: Any, folder: Path) -> Any:
    import pyarrow
    from datasets.table import ConcatenationTable, InMemoryTable, MemoryMappedTable

    if isinstance(table, ConcatenationTable):
        return ConcatenationTable.from_blocks([[_stored(block, folder) for block in row] for row in table.blocks])
    if not isinstance(table, InMemoryTable) or table.nbytes < _SMALL:
        return table
    path = folder / f"{len(list(folder.iterdir()))}.arrow"
    with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
        for batch in table.to_batches(1000):
            writer.write_batch(batch)
    return MemoryMappedTable.from_file(str(path))
