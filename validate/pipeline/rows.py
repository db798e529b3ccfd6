"""Samples in the output of a loader: batches become rows, and rows are recognized in other runs.

A row has a mark for each of its columns: a key of the shards as it is, otherwise a hash of the content. Columns that differ
in each run, such as randomly cropped images, identify nothing; ``identifying`` leaves them out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from .elements import columns_of, has_records, is_column, length_of, looks_like_picture
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

    ``batched``: it certainly gives batches; otherwise an array that looks like a vector or a picture is one sample.
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
    """Return the rows of a batch that is known to hold ``count`` samples; none if they cannot be told apart in it.

    What the batch has as a whole, such as the number of the epoch, is no content of a sample.
    """
    if isinstance(batch, list):
        batch = [each for each in batch if each is not None]
    if isinstance(batch, list | tuple) and len(batch) == count:
        is_square = all(is_column(each) and len(each) == count for each in batch)
        if has_records(batch, keys) or not is_square:
            return [row_of_sample(record, keys) for record in batch]
    columns = columns_of(batch)
    for name, value in list(columns.items()):
        if isinstance(value, Mapping):
            columns |= columns_of(columns.pop(name), f"{name}.")
    split = {name: value for name, value in columns.items() if is_column(value) and len(value) == count}
    return _rows_of_columns(split, count, keys) if split else []


def _rows_of_columns(columns: Mapping[str, object], count: int, keys: Collection[str]) -> list[Row]:
    split = {name: value for name, value in columns.items() if is_column(value) and len(value) == count}
    whole = _row({name: value for name, value in columns.items() if name not in split}, keys)
    return [whole | _row({name: value[index] for name, value in split.items()}, keys) for index in range(count)]


def row_of_sample(item: object, keys: Collection[str]) -> Row:
    """Return the row of an element, with columns for what is inside of its fields: it may have those of several samples."""
    columns = columns_of(item)
    for _ in range(_MOST_DEPTH):
        columns = _with_inner_columns(columns)
    return _row(columns, keys)


def _with_inner_columns(columns: Mapping[str, object]) -> dict[str, object]:
    """Return columns with the fields of records in the place of these; lists of numbers, such as tokens, are no records."""
    flat: dict[str, object] = {}
    for name, value in columns.items():
        is_record = isinstance(value, Mapping | tuple) and not all(isinstance(each, int | float) for each in value)
        inner = columns_of(value) if is_record else {}
        if inner:
            flat |= {f"{name}.{field}": each for field, each in inner.items()}
        else:
            flat[name] = value
    return flat


def _row(columns: Mapping[str, object], keys: Collection[str]) -> Row:
    return {name: mark_of(value, keys) for name, value in columns.items()}


def identifying(known: Sequence[Row], seen: Sequence[Row], *, unique_keys: bool, whole: bool) -> tuple[str, ...]:
    """Return the columns by which rows of one run are recognized in another; () if there are none.

    ``unique_keys``: no two samples of the shards have the same key, so that keys alone identify; ``whole``: the first run
    has read all samples, so that it must have most of those of the other.
    """
    if not known or not seen:
        return ()
    columns = list(known[0])
    keys = tuple(name for name in columns if all(row.get(name, "").startswith(KEY) for row in known))
    if keys and unique_keys:
        return keys
    values = {name: {row.get(name) for row in known} for name in columns}
    shares = {name: sum(row.get(name) in values[name] for row in seen) / len(seen) for name in columns}
    best = max(shares.values(), default=0.0)
    if best < (_MOST_ROWS if whole else _SOME_ROWS):
        return ()

    def usefulness(name: str) -> tuple[bool, bool, int]:
        # A number is perhaps a counter in each process: the others come first, and it must agree with them.
        return name not in keys, known[0][name].startswith(NUMBER), -len(values[name])

    usable: tuple[str, ...] = ()
    for name in sorted(columns, key=usefulness):
        together = {identity(row, (*usable, name)) for row in known}
        recognized = sum(identity(row, (*usable, name)) in together for row in seen)
        if recognized >= (best - _TOLERANCE) * len(seen):
            usable = (*usable, name)
    if len(known) == 1 or len({identity(row, usable) for row in known}) > 1:
        return usable
    return ()


def identity(row: Row, columns: Iterable[str]) -> tuple[str, ...]:
    """Return what identifies a row."""
    return tuple(row.get(name, "") for name in columns)


def such_as(identities: Iterable[tuple[str, ...]]) -> str:
    """Return the key of the first row in parentheses, "" if it has none."""
    for mark in next(iter(identities)):
        if mark.startswith(KEY):
            return f" (such as {mark.removeprefix(KEY)})"
    return ""
