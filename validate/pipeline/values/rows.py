"""Samples in the output of a loader: batches become rows, and rows are recognized in other runs.

A row has a mark for each of its columns: a key of the shards as it is, otherwise a hash of the
content. Columns that differ in each run, such as randomly cropped images, identify nothing;
``identifying_columns`` leaves them out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from .elements import (
    columns_of,
    has_records,
    is_column,
    length_of,
    looks_like_picture,
    without_none,
)
from .marks import KEY, NUMBER, is_array, mark_of

# Column -> mark.
Row = dict[str, str]
NO_KEYS = (
    "its samples have no key, and differ in each run: let the loader give the key as well, such as by"
    ' .to_tuple("__key__", "jpg", "txt")'
)
# Shares of the rows of one run that another must have, so that their columns can identify samples.
_MOST_ROWS = 0.75
_SOME_ROWS = 0.5
_TOLERANCE = 0.02
# Of records within records.
_MOST_DEPTH = 2


def rows_of(item: object, keys: Collection[str], *, batched: bool = False) -> list[Row]:
    """Return the samples of one item of a loader: the rows of a batch, or one row.

    Args:
        item: a sample or a batch.
        keys: of the samples in the shards.
        batched: it certainly is a batch; otherwise an array that looks like a vector or a picture
            is one sample.
    """
    if not batched and is_array(item) and (item.ndim == 1 or looks_like_picture(item)):
        return [_row({"": item}, keys)]
    if isinstance(item, list | tuple) and has_records(item, keys):
        return [_row(columns_of(record), keys) for record in item]
    columns = columns_of(item)
    count = length_of(columns, keys)
    if count is None:
        return [_row(columns, keys)]
    return _rows_of_columns(columns, count, keys)


def rows_of_batch(batch: object, count: int, keys: Collection[str]) -> list[Row]:
    """Return the rows of a batch that is known to hold ``count`` samples.

    Returns none if they cannot be separated.

    What the batch has as a whole, such as the number of the epoch, is no content of a sample.
    """
    batch = without_none(batch)
    if isinstance(batch, list | tuple) and len(batch) == count:
        # As many columns as samples.
        is_square = all(is_column(value) and len(value) == count for value in batch)
        if has_records(batch, keys) or not is_square:
            return [row_of_sample(record, keys) for record in batch]
    columns = columns_of(batch)
    for name, value in list(columns.items()):
        if isinstance(value, Mapping):
            columns |= columns_of(columns.pop(name), f"{name}.")
    by_sample = _columns_of_length(columns, count)
    return _rows_of_columns(by_sample, count, keys) if by_sample else []


def row_of_sample(item: object, keys: Collection[str]) -> Row:
    """Return the row of an element, with columns for the values inside of its fields.

    The row may have columns of several samples.
    """
    columns = columns_of(item)
    for _ in range(_MOST_DEPTH):
        columns = _with_inner_columns(columns)
    return _row(columns, keys)


def identifying_columns(
    rows: Sequence[Row], other_rows: Sequence[Row], *, unique_keys: bool, whole: bool
) -> tuple[str, ...]:
    """Return the columns by which rows of one run are recognized in another; () if there are none.

    Args:
        rows: of one run.
        other_rows: of the other.
        unique_keys: no two samples of the shards have the same key, so that keys alone identify.
        whole: the first run has read all samples, so that it must have most of those of the other.
    """
    if not rows or not other_rows:
        return ()
    columns = list(rows[0])
    keys = tuple(name for name in columns if all(row.get(name, "").startswith(KEY) for row in rows))
    if keys and unique_keys:
        return keys
    values: dict[str, set[str | None]] = {}
    # Of the other rows, how many have a value of these rows in the column.
    matching: dict[str, int] = {}
    for name in columns:
        values[name] = {row.get(name) for row in rows}
        matching[name] = sum(row.get(name) in values[name] for row in other_rows)
    best = max(matching.values(), default=0) / len(other_rows)
    if best < (_MOST_ROWS if whole else _SOME_ROWS):
        return ()

    def order(name: str) -> tuple[bool, bool, int]:
        # A number is perhaps a counter in each process: the
        # others come first, and it must agree with them.
        is_number = rows[0][name].startswith(NUMBER)
        return name not in keys, is_number, -len(values[name])

    usable: tuple[str, ...] = ()
    for name in sorted(columns, key=order):
        candidate = (*usable, name)
        identities = {identity(row, candidate) for row in rows}
        recognized = sum(identity(row, candidate) in identities for row in other_rows)
        if recognized >= (best - _TOLERANCE) * len(other_rows):
            usable = candidate
    # What is equal in all rows identifies none.
    if len(rows) > 1 and len({identity(row, usable) for row in rows}) == 1:
        return ()
    return usable


def identity(row: Row, columns: Iterable[str]) -> tuple[str, ...]:
    """Return what identifies a row."""
    return tuple(row.get(name, "") for name in columns)


def example_key_text(identities: Iterable[tuple[str, ...]]) -> str:
    """Return the key of the first row in parentheses, "" if it has none."""
    for mark in next(iter(identities)):
        if mark.startswith(KEY):
            return f" (such as {mark.removeprefix(KEY)})"
    return ""


def _rows_of_columns(columns: Mapping[str, object], count: int, keys: Collection[str]) -> list[Row]:
    """Return the rows of a batch; columns of another length belong to each of them."""
    by_sample = _columns_of_length(columns, count)
    of_batch = _row({name: value for name, value in columns.items() if name not in by_sample}, keys)
    rows = []
    for index in range(count):
        sample = {name: value[index] for name, value in by_sample.items()}
        rows.append(of_batch | _row(sample, keys))
    return rows


def _columns_of_length(columns: Mapping[str, object], count: int) -> dict[str, Sequence[object]]:
    return {
        name: value for name, value in columns.items() if is_column(value) and len(value) == count
    }


def _with_inner_columns(columns: Mapping[str, object]) -> dict[str, object]:
    """Return columns in which the fields of records replace the records.

    Lists of numbers, such as tokens, are not records.
    """
    flat: dict[str, object] = {}
    for name, value in columns.items():
        inner: dict[str, object] = {}
        if isinstance(value, Mapping | tuple) and not all(
            isinstance(field, int | float) for field in value
        ):
            inner = columns_of(value)
        if not inner:
            flat[name] = value
        for field, inner_value in inner.items():
            flat[f"{name}.{field}"] = inner_value
    return flat


def _row(columns: Mapping[str, object], keys: Collection[str]) -> Row:
    return {name: mark_of(value, keys) for name, value in columns.items()}
