"""Samples in the output of a loader: batches become rows, and rows are recognized in other runs.

A row has a mark for each of its columns: a key of the shards as it is, otherwise a hash of the content. Columns that differ
in each run, such as randomly cropped images, identify nothing; ``identifying`` leaves them out.
"""

import hashlib
import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, TypeGuard, cast

Row = dict[str, str]  # column -> mark
KEY = "key:"
NUMBER = "number:"
NO_KEYS = (
    "its samples have no key, and differ in each run: let the loader give the key as well, such as by"
    ' .to_tuple("__key__", "jpg", "txt")'
)
_CHANNELS = 4  # of a picture, at most


class _Array(Protocol):
    """A tensor of torch or an array of numpy, without an import of either."""

    ndim: int
    shape: Sequence[int]
    dtype: object

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> object: ...
    def tolist(self) -> object: ...
    def tobytes(self) -> bytes: ...  # of numpy only


def _is_array(value: object) -> TypeGuard[_Array]:
    return all(hasattr(value, name) for name in ("ndim", "dtype", "tolist"))


def rows_of(item: object, keys: Collection[str], *, batched: bool = False) -> list[Row]:
    """Return the samples of one item of a loader: the rows of a batch, or one row.

    ``batched``: it certainly gives batches; otherwise an array that looks like a vector or a picture is one sample.
    """
    if not batched and _is_array(item) and (item.ndim == 1 or (item.ndim == 3 and min(item.shape[::2]) <= _CHANNELS)):
        return [_row({"": item}, keys)]
    if isinstance(item, list | tuple) and _has_records(item, keys):
        return [_row(_columns(record), keys) for record in item]
    columns = _columns(item)
    count = _length(columns, keys)
    if count is None:
        return [_row(columns, keys)]
    split = {name: value for name, value in columns.items() if _is_column(value) and len(value) == count}
    whole = _row({name: value for name, value in columns.items() if name not in split}, keys)
    return [{**whole, **_row({name: value[index] for name, value in split.items()}, keys)} for index in range(count)]


def is_blank(item: object) -> bool:
    """Return whether an element holds no sample: None, or an empty container."""
    return item is None or (isinstance(item, list | tuple | dict) and not item)


def keys_in(item: object, keys: Collection[str]) -> list[str]:
    """Return the keys of the samples in one item of a loader, a sample or a batch; none if they are not visible."""
    if isinstance(item, list):
        item = [each for each in item if each is not None]
    if isinstance(item, Mapping):
        named = item.get("__key__")
        if isinstance(named, str):
            return [named]
        if isinstance(named, list | tuple) and named and all(isinstance(each, str) for each in named):
            return list(named)
        values: list[Any] = [each for each in item.values() if isinstance(each, str | list | tuple)]
    else:
        values = list(item) if isinstance(item, list | tuple) else [item]
        if all(_is_key(each, keys) for each in values):
            return values
    for value in values:
        if _is_key(value, keys):
            return [value]
        if isinstance(value, list | tuple) and value and all(_is_key(each, keys) for each in value):
            return list(value)
    if not isinstance(item, list | tuple) or not all(isinstance(each, Mapping | list | tuple) for each in item):
        return []
    return [key for each in item for key in keys_in(each, keys)]


def samples_in(item: object, keys: Collection[str], size: int = 0) -> int | None:
    """Return the number of samples in a batch, by its keys, its records or its columns; None if it is unclear.

    ``size``: of a full batch, 0 if unknown. It decides whether lists in a list are records or columns, and no batch has more.
    """
    if isinstance(item, list):
        item = [each for each in item if each is not None]
    if is_blank(item):
        return 0
    if found := keys_in(item, keys):
        return len(found)
    columns = _columns(item)
    for name, value in list(columns.items()):
        if isinstance(value, Mapping):
            columns |= _columns(columns.pop(name), f"{name}.")
    length = _length(columns, keys)
    if not isinstance(item, list | tuple) or not all(isinstance(each, Mapping | list | tuple) for each in item):
        if size and length is None:
            length = _length_beside_scalars(item, columns)
        return None if size and (length or 0) > size else length
    if _has_records(item, keys):
        return len(item)
    fitting = {count for count in (len(item), length) if count == size}
    return size if fitting and len(item) != length else None


def lengths_of(batch: object) -> tuple[int, int] | None:
    """Return the lengths of a sequence of sequences, outer and inner: columns or records. None if it is none."""
    if not isinstance(batch, list | tuple) or not all(isinstance(each, list | tuple) for each in batch):
        return None
    inner = {len(each) for each in batch}
    return (len(batch), inner.pop()) if len(inner) == 1 else None


def may_be_batch(item: object) -> bool:
    """Return whether an item of a loader, of which no key is visible, may hold several samples."""
    if _is_array(item):
        return item.ndim > 0 and not (item.ndim == 3 and min(item.shape[::2]) <= _CHANNELS)
    if isinstance(item, list) and len(item) > 1 and len(set(map(type, item))) == 1 and not _is_array(item[0]):
        return True
    return samples_in(item, ()) is not None


def _has_records(items: Sequence[object], keys: Collection[str]) -> bool:
    """Return whether a sequence has samples, not columns: their fields differ in type, or each has one key."""
    if not items or all(isinstance(each, Mapping) for each in items):
        return bool(items)
    if not all(isinstance(each, list | tuple) and each for each in items):
        return False
    records = cast("Sequence[Sequence[object]]", items)
    if any(len({type(value) for value in each}) > 1 for each in records):
        return True
    return len(records[0]) > 1 and all(sum(_is_key(value, keys) for value in each) == 1 for each in records)


def _is_key(value: object, keys: Collection[str]) -> TypeGuard[str]:
    return isinstance(value, str) and value in keys


def _columns(item: object, above: str = "") -> dict[str, object]:
    """Return the columns of a batch, or the fields of a sample; nested mappings are flattened."""
    if is_dataclass(item) and not isinstance(item, type):
        item = {each.name: getattr(item, each.name) for each in fields(item)}
    if isinstance(item, list | tuple) and not above:
        return {str(index): value for index, value in enumerate(item)}
    if not isinstance(item, Mapping):
        return {above.rstrip("."): item}
    found: dict[str, object] = {}
    for name, value in item.items():
        found |= _columns(value, f"{above}{name}.")
    return found


def _is_column(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple) or (_is_array(value) and value.ndim > 0)


def _length(columns: Mapping[str, object], keys: Collection[str]) -> int | None:
    """Return the number of samples in a batch; None for a sample."""
    for value in columns.values():
        if isinstance(value, list | tuple) and value and all(_is_key(each, keys) for each in value):
            return len(value)
    lengths = {len(value) if _is_column(value) else -1 for value in columns.values()}
    return lengths.pop() if len(lengths) == 1 and -1 not in lengths else None


def _length_beside_scalars(batch: object, columns: Mapping[str, object]) -> int | None:
    """Return the number of texts in a list, or the one length of the columns of a mapping; None if there is none."""
    if isinstance(batch, list | tuple):
        return len(batch) if all(isinstance(each, str) for each in batch) else None
    lengths = {len(value) for value in columns.values() if _is_column(value)}
    others = [value for value in columns.values() if not _is_column(value)]
    scalars = all(value is None or isinstance(value, str | int | float) or _is_array(value) for value in others)
    return lengths.pop() if len(lengths) == 1 and scalars else None


def _row(columns: Mapping[str, object], keys: Collection[str]) -> Row:
    return {name: _mark(value, keys) for name, value in columns.items()}


def _mark(value: object, keys: Collection[str]) -> str:
    if _is_key(value, keys):
        return f"{KEY}{value}"
    if _is_array(value):
        plain = value.ndim and getattr(value.dtype, "hasobject", True) is False  # an array of numpy: ten times as fast
        content = value.tobytes() if plain else value.tolist()
        value = (str(value.dtype), tuple(value.shape), content) if value.ndim else content
    if isinstance(value, bool | int):
        return f"{NUMBER}{int(value)}"
    return hashlib.blake2b(_content(value, keys), digest_size=8).hexdigest()


def _content(value: object, keys: Collection[str]) -> bytes:
    if isinstance(value, Mapping):
        return repr({name: _mark(each, keys) for name, each in value.items()}).encode("utf-8", "replace")
    if isinstance(value, list | tuple) and not all(isinstance(each, int | float | list) for each in value):
        return repr([_mark(each, keys) for each in value]).encode()
    if hasattr(value, "tobytes"):  # an image of Pillow
        return cast("bytes", value.tobytes())
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 - any object of the user
        return type(value).__name__.encode()


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
    if best < (0.75 if whole else 0.5):
        return ()
    usable: tuple[str, ...] = ()
    # A number is perhaps a counter in each process: the others come first, and it must agree with them.
    for name in sorted(
        columns, key=lambda name: (name not in keys, known[0][name].startswith(NUMBER), -len(values[name]))
    ):
        together = {identity(row, (*usable, name)) for row in known}
        if sum(identity(row, (*usable, name)) in together for row in seen) >= (best - 0.02) * len(seen):
            usable = (*usable, name)
    return usable if len({identity(row, usable) for row in known}) > 1 or len(known) == 1 else ()


def identity(row: Row, columns: Iterable[str]) -> tuple[str, ...]:
    """Return what identifies a row."""
    return tuple(row.get(name, "") for name in columns)


def such_as(identities: Iterable[tuple[str, ...]]) -> str:
    """Return the key of the first row in parentheses, "" if it has none."""
    keys = (mark.removeprefix(KEY) for mark in next(iter(identities)) if mark.startswith(KEY))
    return next((f" (such as {key})" for key in keys), "")
