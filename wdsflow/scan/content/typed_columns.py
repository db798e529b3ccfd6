"""What Hugging Face datasets make of fields that hold values: the first samples give each column its type, by Arrow.

Source: datasets 5.2, packaged_modules/webdataset/webdataset.py.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from gzip import GzipFile
from importlib import import_module
from typing import Any, NamedTuple

from .field_kinds import kind_of
from .packed import has_library

MOST_VALUE = 16 << 20  # bytes of a field whose value is looked at
_MOST_NODES = 5_000  # types in one column: every scan keeps them
_DEEPEST = 64
_VALUES = {"json": None, "integer": None, "npy": "numpy", "npz": "numpy", "msgpack": "msgpack"}  # the library needed
_MANY = 1 << 16  # elements of an array that Arrow is shown


class Kind(NamedTuple):
    """The type of a column, or of a part of it.

    ``tag`` is "struct", "list", "bool", "int", "float", "string", or "any" for what takes all values as they are.
    """

    tag: str
    parts: tuple["Kind", ...] = ()
    names: tuple[str, ...] = ()  # of the parts of a struct


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that the first samples of a set give."""

    url: str  # shard of the first samples
    kinds: Mapping[str, Kind] = default(default_factory=dict)  # of fields that hold values, by their names in the tar
    field: str = ""  # in which the first samples do not agree, or which Arrow does not take
    error: str = ""  # what Arrow says of it: the reader raises it
    unknown: str = ""  # why the columns could not be found out
    types: Mapping[str, Any] = default(default_factory=dict)  # Arrow's, if values must also be written to a table


class UnknownColumns(Exception):
    """The columns, or what a value does in one, cannot be found out here; the message says why."""


def holds_value(suffix: str) -> bool:
    """Return whether a field becomes a column of a type that depends on its contents, and ``value_of`` can read it."""
    kind = kind_of(suffix)
    if kind == "gz":
        kind = kind_of(suffix[:-3])
    library = _VALUES.get(kind, "")
    return library is None or (library != "" and has_library(library))


def value_of(suffix: str, data: bytes) -> Any:
    """Return what the reader decodes a field to.

    Raises:
        UnknownColumns: it is too large to be looked at.
        Exception: whatever the decoder raises.
    """
    kind = kind_of(suffix)
    if kind == "gz":
        suffix = suffix[:-3]
        kind = kind_of(suffix)
        with GzipFile(fileobj=io.BytesIO(data)) as file:
            data = file.read(MOST_VALUE + 1)
    if len(data) > MOST_VALUE:
        raise UnknownColumns("its values are too large")
    if kind == "json":
        return json.loads(data)
    if kind == "integer":
        return int(data)
    if kind == "msgpack":
        return import_module("msgpack").unpackb(data)
    import numpy as np

    loaded: Any = np.load(io.BytesIO(data), allow_pickle=False)
    return _scalar(loaded) if kind == "npy" else {name: _scalar(array) for name, array in loaded.items()}


def _scalar(array: Any) -> Any:
    """Return an array without a dimension as the scalar that the reader makes of it."""
    return array if getattr(array, "ndim", 1) else array[()]


def infer(url: str, rows: Sequence[Mapping[str, Any]], *, tables: bool = False) -> Columns:
    """Return the columns that decoded first samples give; each row has the values of one sample by field name.

    Args:
        url: shard of the samples.
        rows: the values of each sample by field name.
        tables: whether a reader writes the values to a table.

    Raises:
        UnknownColumns: they are too many or nested too deep to be kept.
    """
    import pyarrow as pa

    kinds: dict[str, Kind] = {}
    types: dict[str, Any] = {}
    left = [_MOST_NODES]
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [as_lists(row[name]) for row in rows if name in row]
        try:
            found = [pa.table([pa.array([value])], ["value"]) for value in values]
            schema = pa.concat_tables(found, promote_options="default").schema
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            return Columns(url, field=name, error=first_line(error))
        types[name] = schema.field("value").type
        kinds[name] = _kind_of_arrow(types[name], left)
    return Columns(url, kinds, types=types if tables else {})


def first_line(error: Exception) -> str:
    """Return the first line of what an exception says, cut to 200 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def as_lists(value: Any, most: int = _MANY) -> Any:
    """Return a value as the reader gives it to Arrow: arrays of several dimensions as lists of arrays.

    Of an array with more than ``most`` elements the first rows are enough: they have the type of all.
    """
    if isinstance(value, dict):
        return {name: as_lists(item, most) for name, item in value.items()}
    dimensions = getattr(value, "ndim", None)
    if not dimensions:
        return value
    if value.size > most:
        value = value[:2]
    return value if dimensions == 1 else [as_lists(item, most) for item in value]


def _kind_of_arrow(arrow: Any, left: list[int], depth: int = 0) -> Kind:
    from pyarrow import types

    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise UnknownColumns("its values have too many names or are nested too deep")
    if types.is_struct(arrow):
        inner = list(arrow)
        parts = tuple(_kind_of_arrow(item.type, left, depth + 1) for item in inner)
        return Kind("struct", parts, tuple(item.name for item in inner))
    if types.is_list(arrow):
        return Kind("list", (_kind_of_arrow(arrow.value_type, left, depth + 1),))
    tests = {"bool": types.is_boolean, "int": types.is_integer, "float": types.is_floating, "string": types.is_string}
    return Kind(next((tag for tag, test in tests.items() if test(arrow)), "any"))
