"""Column types in Hugging Face datasets, inferred from the first samples, and which values fit."""

import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from gzip import GzipFile
from importlib import import_module
from typing import Any, NamedTuple

from wdsflow.text.install import install_packages

from .field_kinds import kind_of
from .other import has_library

# Source: datasets 5.2, packaged_modules/webdataset/webdataset.py.

# Bytes of a field whose value is looked at.
MOST_VALUE = 16 << 20
# Types in one column: every scan keeps them.
_MOST_NODES = 5_000
_DEEPEST = 64
# The library needed.
_VALUES = {"json": None, "integer": None, "npy": "numpy", "npz": "numpy", "msgpack": "msgpack"}
# Elements of an array that Arrow is shown.
_MANY = 1 << 16

_PLAIN_ARRAYS = {"int": "iu", "float": "f", "bool": "b", "string": "U"}
_SCALARS: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "string": str,
}

_JSON_CLASSES = {"struct": dict, "list": list, "int": int, "float": float}


class Kind(NamedTuple):
    """The type of a column, or of a part of it.

    ``tag`` is "struct", "list", "bool", "int", "float", "string", or "any" for one that accepts all
    values.
    """

    tag: str
    parts: tuple["Kind", ...] = ()
    # Of the parts of a struct.
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InferredColumns:
    """The columns that the first samples of a set give."""

    # Shard of the first samples.
    url: str
    # Of fields that hold values, by their names in the tar.
    kinds: Mapping[str, Kind] = default(default_factory=dict)
    # In which the first samples do not agree, or which Arrow does not take.
    field: str = ""
    # Arrow's message, which the reader raises.
    error: str = ""
    # Why the columns are unknown.
    unknown: str = ""
    # Arrow's, if values must also be written to a table.
    types: Mapping[str, object] = default(default_factory=dict)


class UnknownColumns(Exception):
    """The columns, or whether a value fits into one, cannot be determined; the message says why."""


def holds_value(suffix: str) -> bool:
    """Return whether a field's column type depends on its contents and ``value_of`` can read it."""
    kind = kind_of(suffix)
    if kind == "gz":
        kind = kind_of(suffix[:-3])
    library = _VALUES.get(kind, "")
    return library is None or (library != "" and has_library(library))


def value_of(suffix: str, data: bytes) -> object:
    """Return the value that the reader decodes a field to.

    Raises UnknownColumns if the value is too large, and errors of decoders.
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

    loaded = np.load(io.BytesIO(data), allow_pickle=False)
    # An array without a dimension becomes a scalar.
    arrays = {"": loaded} if kind == "npy" else dict(loaded)
    found = {
        name: array if getattr(array, "ndim", 1) else array[()] for name, array in arrays.items()
    }
    return found[""] if kind == "npy" else found


def infer_columns(
    url: str, rows: Sequence[Mapping[str, object]], *, tables: bool = False
) -> InferredColumns:
    """Return the columns that the reader infers from the first decoded samples.

    Args:
        url: shard of the samples.
        rows: the values of each sample by field name.
        tables: whether a reader writes the values to a table.

    Raises:
        UnknownColumns: they are too many or nested too deep to be kept, or pyarrow is not
            installed.
    """
    if not any(rows):
        return InferredColumns(url)
    # It comes with the reader; nothing else has its rules.
    if not has_library("pyarrow"):
        raise UnknownColumns(
            f"pyarrow is not installed; to install it: {install_packages('pyarrow')}"
        )
    import pyarrow as pa

    kinds: dict[str, Kind] = {}
    types: dict[str, object] = {}
    left = [_MOST_NODES]
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [as_lists(row[name]) for row in rows if name in row]
        try:
            found = [pa.table([pa.array([value])], ["value"]) for value in values]
            schema = pa.concat_tables(found, promote_options="default").schema
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            return InferredColumns(url, field=name, error=first_line(error))
        types[name] = schema.field("value").type
        kinds[name] = _kind_of_arrow(types[name], left)
    return InferredColumns(url, kinds, types=types if tables else {})


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, cut to 200 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def as_lists(value: Any, most: int = _MANY) -> Any:
    """Return a value as the reader gives it to Arrow.

    An array of several dimensions becomes a list of arrays.

    Of an array with more than ``most`` elements the first rows are enough: they have the type of
    all.
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
    tests = {
        "bool": types.is_boolean,
        "int": types.is_integer,
        "float": types.is_floating,
        "string": types.is_string,
    }
    return Kind(next((tag for tag, test in tests.items() if test(arrow)), "any"))


# Every value is converted to the type of its column in plain Python, leniently: ``int("7")``
# passes, and a missing name becomes None. An exception there ends the reader.
#
# Source: datasets 5.2, features/features.py (``encode_nested_example``).


def encode(kind: Kind, value: Any) -> Any:
    """Convert a value to the type of its column, as the reader does; an exception ends the reader.

    Only the first element of a list that is not empty is checked: if conversion does not change it,
    it changes none.
    """
    tag = kind.tag
    if value is None or tag == "any":
        return value
    if tag == "struct":
        return {
            name: encode(part, value.get(name))
            for name, part in zip(kind.names, kind.parts, strict=True)
        }
    if tag != "list":
        return _SCALARS[tag](value)
    inner = kind.parts[0]
    if len(value):
        for first in value:
            if _is_filled(first, inner):
                break
        try:
            changed = bool(encode(inner, first) != first)
        except ValueError:
            changed = False
        if changed:
            return [encode(inner, item) for item in value]
    return list(value)


def _is_filled(value: object, kind: Kind) -> bool:
    if isinstance(value, list) and kind.tag == "list":
        return bool(value) and _is_filled(value[0], kind.parts[0])
    return value is not None


def _certainly_fits(kind: Kind, value: object) -> bool:
    """Return whether a JSON value certainly fits its column.

    A fast JSON parser may have turned an integer of more than 64 bits into a float.
    """
    tag = kind.tag
    if tag == "struct" and isinstance(value, dict):
        get = value.get
        return all(
            _certainly_fits(part, get(name))
            for name, part in zip(kind.names, kind.parts, strict=True)
        )
    if tag == "list" and isinstance(value, list):
        return all(_certainly_fits(kind.parts[0], item) for item in value)
    if tag == "float" and value.__class__ is int:
        return -(1 << 63) < value < 1 << 63
    expected = _JSON_CLASSES.get(tag)
    return value is None or expected is None or isinstance(value, expected)


class ColumnCheck:
    """Checks whether the contents of one field fit into its column."""

    def __init__(self, suffix: str, kind: Kind, arrow: object = None) -> None:
        self.suffix, self.kind = suffix, kind
        # The type of a table's column to which values are written; None: they are not written.
        self.arrow = arrow
        # Of the reader, for the last value that did not fit.
        self.error = ""
        # Arrow's error for the last value, if it fits but cannot be written.
        self.unwritable = ""
        # The last value holds arrays, and Arrow gives it another type than the column has.
        self.other_type = False

    def certainly_fits(self, value: object) -> bool:
        """Return whether a json value, as a fast parser has it, fits without a further look."""
        return self.arrow is None and _certainly_fits(self.kind, value)

    def converts(self, data: bytes) -> bool | None:
        """Return whether the reader converts a valid field without an exception.

        None if that is unknown.
        """
        self.unwritable, self.other_type = "", False
        if self.kind.tag == "any" and self.arrow is None:
            return True
        try:
            value = value_of(self.suffix, data)
            if not _is_array_of_type(self.kind, value):
                value = encode(self.kind, value)
        except UnknownColumns:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader raises it too
            self.error = first_line(error)
            return False
        if self.arrow is not None:
            self._write(value)
        return True

    def _write(self, value: object) -> None:
        import pyarrow as pa

        try:
            made = pa.array([_with_plain_arrays(value)])
            self.other_type = made.type != self.arrow and kind_of(
                self.suffix.removesuffix(".gz")
            ) in ("npy", "npz")
            made.cast(self.arrow)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            self.unwritable = first_line(error)


def _with_plain_arrays(value: object) -> object:
    """Return a value with its arrays as Arrow takes them, of lists and objects as well."""
    if isinstance(value, list):
        return [_with_plain_arrays(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_plain_arrays(item) for name, item in value.items()}
    return as_lists(value, sys.maxsize)


def _is_array_of_type(kind: Kind, value: Any) -> bool:
    """Return whether a value is an array with exactly the dimensions and type of its column.

    Such an array certainly fits.
    """
    dimensions = getattr(value, "ndim", -1)
    for _ in range(dimensions):
        if kind.tag != "list":
            return False
        kind = kind.parts[0]
    return dimensions > 0 and value.dtype.kind in _PLAIN_ARRAYS.get(kind.tag, "")
