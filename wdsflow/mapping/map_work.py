"""Kinds of rows: slices of a Hugging Face Dataset, and rows of any iterable, with the work that maps them."""

import contextlib
import ctypes
import inspect
import os
import pickle
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wdsflow.memory.sizes import weigh
from wdsflow.memory.usage import mapped_files

from .column_kinds import Arrow, Dataset, Features
from .map_worker import RowBatch, UnreadableError, packed

# Bytes of an input that may stay mapped into memory.
_REOPEN = 64 << 20
# MADV_DONTNEED of Linux.
_DONT_NEED = 4
# Bytes of a table that travels to workers.
_SMALL = 1 << 20
_LENGTH = struct.Struct("<Q")
# Entries of a list, and those that are weighed if it has more.
_MANY, _LOOKED_AT = 256, 64


class SliceSource:
    """Slices of a Dataset, which the workers open themselves."""

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
class _Work:
    fn: Callable[..., Any]
    remove_columns: tuple[str, ...] = ()
    fn_kwargs: Mapping[str, object] = field(default_factory=dict)
    with_indices: bool = False
    # Bytes of the latest results.
    results: int = 0


@dataclass
class DatasetWork(_Work):
    """Maps slices of a Dataset, which is pickled, with ``Dataset.map`` in a worker."""

    dataset: bytes = b""
    features: Features = None

    def begin(self) -> None:
        """Open the dataset."""
        import datasets

        datasets.disable_progress_bars()
        self._open()

    def _open(self) -> None:
        self._dataset = pickle.loads(self.dataset)  # noqa: S301 - by the parent
        self._mapped = mapped_files()

    def map(self, batch: RowBatch, path: str) -> int | None:
        """Write the results as an Arrow file, and return the number of rows, or None if the function changes nothing."""
        if mapped_files() - self._mapped > _REOPEN:
            # Unmaps the pages that were read.
            self._open()
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

    def _function(self, offset: int) -> Callable[..., object]:
        async def waiting(batch: object, *indices: list[int], **more: object) -> object:
            return await self.fn(
                batch, *([number + offset for number in each] for each in indices), **more
            )

        def function(batch: object, *indices: list[int], **more: object) -> object:
            found = self.fn(
                batch, *([number + offset for number in each] for each in indices), **more
            )
            # Columns of a lazily decoded batch that were not read stay encoded.
            left = getattr(found, "keys_to_format", ())
            data = getattr(found, "data", found) if left else found
            self.results = weigh_results(
                {name: data[name] for name in data if name not in left} if left else data
            )
            return found

        return waiting if inspect.iscoroutinefunction(self.fn) else function


@contextlib.contextmanager
def on_disk(dataset: Dataset, folder: Path) -> Iterator[Dataset]:
    """Yield the dataset with its tables in files, so that workers need no copies of it.

    Tables in memory are written into ``folder``, until the context ends.
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
        release_pages([file["filename"] for file in dataset.cache_files])
        yield found.with_format(
            form["type"], form["columns"], form["output_all_columns"], **form["format_kwargs"]
        )
    finally:
        shutil.rmtree(given, ignore_errors=True)


def release_pages(files: Collection[str]) -> None:
    """Release the pages of files that this process has mapped for reading, on Linux."""
    if not sys.platform.startswith("linux"):
        return
    wanted = {os.path.realpath(file) for file in files}
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            # The last is the path, if there is one.
            span, rights, *_, last = line.split(maxsplit=5)
            # read-only pages equal the file.
            if rights.startswith("r-") and last in wanted:
                start, end = (int(word, 16) for word in span.split("-"))
                advise(start, end - start, _DONT_NEED)


def _stored(table: Arrow, folder: Path) -> Arrow:
    import pyarrow
    from datasets.table import ConcatenationTable, InMemoryTable, MemoryMappedTable

    if isinstance(table, ConcatenationTable):
        return ConcatenationTable.from_blocks(
            [[_stored(block, folder) for block in row] for row in table.blocks]
        )
    if not isinstance(table, InMemoryTable) or table.nbytes < _SMALL:
        return table
    path = folder / f"{len(list(folder.iterdir()))}.arrow"
    with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
        for batch in table.to_batches(1000):
            writer.write_batch(batch)
    return MemoryMappedTable.from_file(str(path))


class RowSource:
    """Rows of an iterable, read lazily. Rows of one batch have the same columns."""

    def __init__(self, rows: Iterable[object]) -> None:
        self._rows = iter(rows)
        self._count = len(rows) if isinstance(rows, Sized) else None
        self._next = 0
        self._error: Exception | None = None
        # A row that did not fit into the last batch.
        self._held: tuple[bytes, object] | None = None

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows: at least one, while there are any."""
        taken: list[bytes] = []
        size, columns = 0, None
        while len(taken) < rows:
            held = self._held or self._read()
            if held is None:
                break
            data, these = held
            if taken and (size + len(data) > room or these != columns):
                self._held = held
                break
            self._held, columns = None, these
            taken.append(data)
            size += len(data)
        if not taken:
            return None
        start, self._next = self._next, self._next + len(taken)
        return RowBatch(start, self._next, tuple(taken))

    def left(self) -> int | None:
        """Return how many rows are left, None if unknown."""
        return None if self._count is None else max(self._count - self._next, 0)

    def finish(self) -> None:
        """Raise the error of the iterable, or of a row that cannot be sent. The rows before it have been taken."""
        if self._error is not None:
            raise self._error

    def _read(self) -> tuple[bytes, object] | None:
        if self._error is not None:
            return None
        try:
            for row in self._rows:
                columns = tuple(row) if isinstance(row, Mapping) else None
                try:
                    return pickle.dumps(row, pickle.HIGHEST_PROTOCOL), columns
                except Exception:  # noqa: BLE001 - dill may manage, or its error has the reason
                    return packed(row, "a row"), columns
        except Exception as error:  # noqa: BLE001 - raised after the results of the rows before it
            self._error = error
        return None


class RowWork(_Work):
    """Maps the rows of an iterable in a worker."""

    def begin(self) -> None:
        """Do nothing: rows come with each batch."""

    def map(self, batch: RowBatch, path: str) -> int:
        """Write the result rows, each pickled, and return their number."""
        try:
            rows: list[Any] = [pickle.loads(data) for data in batch.rows]  # noqa: S301 - by the parent
        except (AttributeError, ImportError) as error:
            raise UnreadableError(
                f"a row's class must be importable: define it in a module, not in a script ({error})"
            ) from None
        columns = isinstance(rows[0], Mapping)
        given = {name: [row[name] for row in rows] for name in rows[0]} if columns else rows
        indices = (list(range(batch.start, batch.stop)),) if self.with_indices else ()
        found = self.fn(given, *indices, **self.fn_kwargs)
        self.results = weigh_results(found)
        if columns:
            if found is not None and not isinstance(found, Mapping):
                raise TypeError(
                    f"fn returned {type(found).__name__}; for rows with columns it returns a mapping of columns"
                )
            assert isinstance(given, dict)
            kept = {
                name: values for name, values in given.items() if name not in self.remove_columns
            }
            return _write(path, _rows_of({**kept, **(found or {})}))
        if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
            raise TypeError(
                f"fn returned {type(found).__name__}; it returns a list with a result for each row"
            )
        return _write(path, found)


def _write(path: str, rows: Iterable[object]) -> int:
    count = 0
    with Path(path).open("xb") as file:
        for row in rows:
            data = pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
            file.write(_LENGTH.pack(len(data)))
            file.write(data)
            count += 1
    return count


def _rows_of(columns: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for name, values in columns.items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sized):
            raise TypeError(
                f"fn returned {type(values).__name__} for {name!r}; a column is a list of values"
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(
            f"the columns have different numbers of rows ({listed}); remove the replaced columns with remove_columns"
        )
    # Not by number: a pandas Series has its own index.
    for row in zip(*columns.values(), strict=True):
        # A tensor that is a view would be pickled with its whole storage.
        yield {
            name: value.clone() if hasattr(value, "untyped_storage") else value
            for name, value in zip(columns, row, strict=True)
        }


def read_rows(path: Path) -> Iterator[object]:
    """Yield the rows of a worker's file lazily."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            yield pickle.loads(file.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - written by our own process


def weigh_results(value: object) -> int:
    """Return about how many bytes a value takes; of a list with more than 256 entries, 64 are weighed.

    >>> weigh_results([0.5] * 1_000_000) > 20_000_000
    True
    """
    if isinstance(value, Mapping):
        return sum(map(weigh_results, value.values())) + 64 * len(value)
    if isinstance(value, (list, tuple)):
        step = max(1, len(value) // _LOOKED_AT) if len(value) > _MANY else 1
        looked_at = value[::step]
        return sum(map(weigh_results, looked_at)) * len(value) // max(len(looked_at), 1) + 8 * len(
            value
        )
    return sys.getsizeof(value) if isinstance(value, (int, float)) else weigh(value)
