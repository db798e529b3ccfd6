"""What one element of the user's loader holds.

It is a sample, or a batch of a number of samples, with the keys that are visible in it.

An element may be anything: a mapping, a tuple, a list of records or of columns, a tensor, a text.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeGuard, cast

from .marks import is_array, is_key

# Of a picture, at most.
_CHANNELS = 4
_PICTURE_DIMENSIONS = 3
# Height and channels, wherever the channels are.
_SOME_SHAPE = slice(None, None, 2)


def is_blank(item: object) -> bool:
    """Return whether an element holds no sample: None, or an empty container."""
    return item is None or (isinstance(item, list | tuple | dict) and not item)


def looks_like_picture(value: object) -> bool:
    """Return whether a value is an array of a height, a width and a few channels."""
    if not is_array(value) or value.ndim != _PICTURE_DIMENSIONS:
        return False
    return min(value.shape[_SOME_SHAPE]) <= _CHANNELS


def without_none(item: object) -> object:
    """Return a list without None; anything else is returned unchanged.

    Some loaders yield None for a sample that they skip.
    """
    if not isinstance(item, list):
        return item
    return [value for value in item if value is not None]


def keys_in(item: object, keys: Collection[str]) -> list[str]:
    """Return the keys of the samples in one element.

    It is a sample or a batch. Returns none if the keys are not visible.

    ``keys``: of the samples in the shards.
    """
    item = without_none(item)
    values: list[Any]
    if isinstance(item, Mapping):
        key = item.get("__key__")
        if isinstance(key, str):
            return [key]
        if _are_texts(key):
            return list(key)
        values = [value for value in item.values() if isinstance(value, str | list | tuple)]
    else:
        values = list(item) if isinstance(item, list | tuple) else [item]
        if all(is_key(value, keys) for value in values):
            return values
    for value in values:
        if is_key(value, keys):
            return [value]
        if are_keys(value, keys):
            return list(value)
    if not isinstance(item, list | tuple) or not _may_be_records(item):
        return []
    return [key for record in item for key in keys_in(record, keys)]


def samples_in(item: object, keys: Collection[str], size: int = 0) -> int | None:
    """Return the number of samples in a batch; None if it is unclear.

    Keys, records or columns show it.

    Args:
        item: the batch.
        keys: of the samples in the shards.
        size: of a full batch, 0 if unknown. It decides whether lists in a list are records or
            columns, and no batch has more.
    """
    item = without_none(item)
    if is_blank(item):
        return 0
    batch_keys = keys_in(item, keys)
    if batch_keys:
        return len(batch_keys)
    columns = columns_of(item)
    for name, value in list(columns.items()):
        if isinstance(value, Mapping):
            columns |= columns_of(columns.pop(name), f"{name}.")
    length = length_of(columns, keys)
    if isinstance(item, list | tuple) and _may_be_records(item):
        if has_records(item, keys):
            return len(item)
        # Lists in a list: the size of a full batch decides, unless both lengths are equal.
        is_clear = len(item) != length
        return size if is_clear and size in (len(item), length) else None
    if not size:
        return length
    if length is None:
        length = _length_beside_scalars(item, columns)
    return None if length is not None and length > size else length


def lengths_of(batch: object) -> tuple[int, int] | None:
    """Return the outer and inner lengths of a sequence of sequences.

    These are columns or records. Returns None if it is neither.
    """
    if not isinstance(batch, list | tuple):
        return None
    if not all(isinstance(inner, list | tuple) for inner in batch):
        return None
    lengths = {len(inner) for inner in batch}
    if len(lengths) != 1:
        return None
    return len(batch), lengths.pop()


def may_be_batch(item: object) -> bool:
    """Return whether an element, of which no key is visible, may hold several samples."""
    if is_array(item):
        return item.ndim > 0 and not looks_like_picture(item)
    if isinstance(item, list) and len(item) > 1:
        same_type = len({type(value) for value in item}) == 1
        if same_type and not is_array(item[0]):
            return True
    lengths = lengths_of(item)
    if lengths is not None and lengths[0] > 1:
        return True
    return samples_in(item, ()) is not None


def has_records(items: Sequence[object], keys: Collection[str]) -> bool:
    """Return whether a sequence holds samples, not columns.

    Samples have fields of different types, or each has one key.
    """
    if not items:
        return False
    if all(isinstance(item, Mapping) for item in items):
        return True
    if not all(isinstance(item, list | tuple) and item for item in items):
        return False
    records = cast("Sequence[Sequence[object]]", items)
    for record in records:
        if len({type(value) for value in record}) > 1:
            return True
    if len(records[0]) == 1:
        return False
    return all(sum(is_key(value, keys) for value in record) == 1 for record in records)


def columns_of(item: object, above: str = "") -> dict[str, object]:
    """Return the columns of a batch, or the fields of a sample; nested mappings are flattened.

    ``above``: prefix of the names, of a mapping within another.
    """
    if is_dataclass(item) and not isinstance(item, type):
        item = {field.name: getattr(item, field.name) for field in fields(item)}
    if isinstance(item, list | tuple) and not above:
        return {str(index): value for index, value in enumerate(item)}
    if not isinstance(item, Mapping):
        return {above.rstrip("."): item}
    columns: dict[str, object] = {}
    for name, value in item.items():
        columns |= columns_of(value, f"{above}{name}.")
    return columns


def is_column(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value may have one value for each sample of a batch."""
    return isinstance(value, list | tuple) or (is_array(value) and value.ndim > 0)


def length_of(columns: Mapping[str, object], keys: Collection[str]) -> int | None:
    """Return the number of samples in a batch; None for a sample."""
    for value in columns.values():
        if are_keys(value, keys):
            return len(value)
    lengths = set()
    for value in columns.values():
        if not is_column(value):
            return None
        lengths.add(len(value))
    return lengths.pop() if len(lengths) == 1 else None


def are_keys(value: object, keys: Collection[str]) -> TypeGuard[Sequence[str]]:
    """Return whether a value is a list of keys."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(is_key(key, keys) for key in value)


def _length_beside_scalars(batch: object, columns: Mapping[str, object]) -> int | None:
    """Return the number of texts or files in a list, or the length of a mapping's columns.

    Returns None if the columns do not have one length.
    """
    if isinstance(batch, list | tuple):
        return len(batch) if all(isinstance(item, str | bytes) for item in batch) else None
    lengths = set()
    for value in columns.values():
        if is_column(value):
            lengths.add(len(value))
        elif value is not None and not isinstance(value, str | int | float) and not is_array(value):
            return None
    return lengths.pop() if len(lengths) == 1 else None


def _may_be_records(items: Sequence[object]) -> bool:
    return all(isinstance(item, Mapping | list | tuple) for item in items)


def _are_texts(value: object) -> TypeGuard[Sequence[str]]:
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(text, str) for text in value)
