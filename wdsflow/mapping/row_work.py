"""Rows of any iterable: how they are read into batches, and the work that maps them."""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from .errors import UnreadableError
from .function_work import FunctionWork
from .messages import RowBatch, pickle_for_worker
from .result_size import estimated_result_size
from .row_files import write_rows


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
        batch: list[bytes] = []
        size = 0
        columns: object = None
        while len(batch) < rows:
            row = self._held or self._read()
            if row is None:
                break
            data, row_columns = row
            if batch and (size + len(data) > room or row_columns != columns):
                self._held = row
                break
            self._held = None
            columns = row_columns
            batch.append(data)
            size += len(data)
        if not batch:
            return None
        start = self._next
        self._next += len(batch)
        return RowBatch(start, self._next, tuple(batch))

    def rows_left(self) -> int | None:
        """Return how many rows are left, None if unknown."""
        if self._count is None:
            return None
        return max(self._count - self._next, 0)

    def finish(self) -> None:
        """Raise the error of the iterable, or of a row that cannot be sent.

        The rows before it have been taken.
        """
        if self._error is not None:
            raise self._error

    def _read(self) -> tuple[bytes, object] | None:
        """Return the next row, pickled, and its columns; None after the last row, or an error."""
        if self._error is not None:
            return None
        try:
            for row in self._rows:
                columns = tuple(row) if isinstance(row, Mapping) else None
                return _pickled(row), columns
        except Exception as error:  # noqa: BLE001 - raised after the results of the rows before it
            self._error = error
        return None


class RowWork(FunctionWork):
    """Maps the rows of an iterable in a worker."""

    def begin(self) -> None:
        """Do nothing: rows come with each batch."""

    def map(self, batch: RowBatch, path: str) -> int:
        """Write the result rows, each pickled, and return their number."""
        rows = _unpickled(batch)
        indices: list[object] = []
        if self.with_indices:
            indices.append(list(range(batch.start, batch.stop)))
        if not isinstance(rows[0], Mapping):
            results = self.fn(rows, *indices, **self.fn_kwargs)
            self.results = estimated_result_size(results)
            return write_rows(path, _checked_list(results))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        results = self.fn(columns, *indices, **self.fn_kwargs)
        self.results = estimated_result_size(results)
        return write_rows(path, _rows_of(self._result_columns(columns, results)))

    def _result_columns(self, columns: dict[Any, Any], results: Any) -> dict[Any, Any]:
        """Return the columns of the rows, updated with those that ``fn`` returned."""
        if results is not None and not isinstance(results, Mapping):
            raise TypeError(
                f"fn returned {type(results).__name__}; for rows with columns it returns a mapping of columns"
            )
        kept = {name: values for name, values in columns.items() if name not in self.remove_columns}
        return {**kept, **(results or {})}


def _pickled(row: object) -> bytes:
    try:
        return pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - dill may manage, or its error has the reason
        return pickle_for_worker(row, "a row")


def _unpickled(batch: RowBatch) -> list[Any]:
    try:
        return [pickle.loads(data) for data in batch.rows]  # noqa: S301 - by the parent
    except (AttributeError, ImportError) as error:
        raise UnreadableError(
            f"a row's class must be importable: define it in a module, not in a script ({error})"
        ) from None


def _checked_list(results: Any) -> Iterable[object]:
    """Return the results for rows without columns.

    Raises TypeError unless they are a list or another iterable.
    """
    if isinstance(results, (str, bytes, Mapping)) or not isinstance(results, Iterable):
        raise TypeError(
            f"fn returned {type(results).__name__}; it returns a list with a result for each row"
        )
    return results


def _rows_of(columns: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Yield the rows of columns.

    Raises TypeError if a column is not a list, ValueError if lengths differ.
    """
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
    for values in zip(*columns.values(), strict=True):
        yield {name: _small_copy(value) for name, value in zip(columns, values, strict=True)}


def _small_copy(value: Any) -> object:
    """Return a value; a tensor that is a view would be pickled with all of its storage."""
    return value.clone() if hasattr(value, "untyped_storage") else value
