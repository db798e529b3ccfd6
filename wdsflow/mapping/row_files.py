"""Rows of any iterable: they are sent to workers, and come back through files, one at a time."""

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .map_worker import RowBatch, UnreadableError, packed
from .sizing import weigh_results

_LENGTH = struct.Struct("<Q")


class RowSource:
    """Takes rows from an iterable as they are asked for. Rows of one batch have the same columns."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = iter(rows)
        self._count = len(rows) if isinstance(rows, Sized) else None
        self._next = 0
        self._error: Exception | None = None
        self._held: tuple[bytes, object] | None = None  # a row that did not fit into the batch before

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
        """Return how many rows are left, None if nobody knows."""
        return None if self._count is None else max(self._count - self._next, 0)

    def finish(self) -> None:
        """Raise what the iterable raised, or what a row that cannot be sent did. The rows before it have been taken."""
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
                except Exception:  # noqa: BLE001 - the other way says why
                    return packed(row, "a row"), columns
        except Exception as error:  # noqa: BLE001 - raised when the results of the rows before it are out
            self._error = error
        return None


@dataclass
class RowWork:
    """Maps rows in a worker."""

    fn: Callable[..., Any]
    remove_columns: tuple[str, ...] = ()
    fn_kwargs: Mapping[str, Any] = field(default_factory=dict)
    with_indices: bool = False
    results: int = 0

    def begin(self) -> None:
        """Do nothing; rows come with each batch."""

    def map(self, batch: RowBatch, path: str) -> int:
        """Write the results' rows, each pickled, and return their number."""
        rows = _unpacked(batch.rows)
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
            kept = {name: values for name, values in given.items() if name not in self.remove_columns}  # type: ignore[union-attr]
            return self._write(path, _rows_of({**kept, **(found or {})}))
        if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
            raise TypeError(f"fn returned {type(found).__name__}; it returns a list with a result for each row")
        return self._write(path, found)

    def _write(self, path: str, rows: Iterable[Any]) -> int:
        count = 0
        with Path(path).open("xb") as file:
            for row in rows:
                data = pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
                file.write(_LENGTH.pack(len(data)))
                file.write(data)
                count += 1
        return count


def _unpacked(rows: Iterable[bytes]) -> list[Any]:
    try:
        return [pickle.loads(data) for data in rows]  # noqa: S301 - written by the process that asks
    except (AttributeError, ImportError) as error:
        raise UnreadableError(
            f"a row's class must be importable: define it in a module, not in a script ({error})"
        ) from None


def _rows_of(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, values in columns.items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sized):
            raise TypeError(f"fn returned {type(values).__name__} for {name!r}; a column is a list of values")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(
            f"the columns have different numbers of rows ({told}); remove the replaced columns with remove_columns"
        )
    for row in zip(*columns.values(), strict=True):  # not by number: a Series of pandas has numbers of its own
        # A tensor that is a part of another would take the whole of it along.
        yield {
            name: value.clone() if hasattr(value, "untyped_storage") else value
            for name, value in zip(columns, row, strict=True)
        }


def read_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a file that a worker wrote, one at a time."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            yield pickle.loads(file.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - written by our own process
