"""Which values fit into the columns of Hugging Face datasets.

Every value is converted to the type of its column in plain Python, leniently: ``int("7")`` passes, and a missing name
becomes None. What raises there ends the reader.

Source: datasets 5.2, features/features.py (``encode_nested_example``).
"""

import sys
from collections.abc import Callable
from typing import Any

from .field_kinds import kind_of
from .typed_columns import Kind, UnknownColumns, as_lists, first_line, value_of

_INT64 = 1 << 63
_NOTHING = frozenset({type(None)})
_INTEGERS, _FLOATS = _NOTHING | {int, bool}, _NOTHING | {float}
_BY_CLASS = {"int": _INTEGERS, "float": _FLOATS}  # values of these classes fit whatever they are
_PLAIN_ARRAYS = {"int": "iu", "float": "f", "bool": "b", "string": "U"}

Fits = Callable[[Any], bool]


def encode(kind: Kind, value: Any) -> Any:
    """Convert a value to the type of its column, as the reader does; whatever is raised ends the reader.

    Of a list only the first element that holds something is looked at: if it stays as it is, so do the others.
    """
    tag = kind.tag
    if value is None or tag == "any":
        return value
    if tag == "struct":
        return {name: encode(part, value.get(name)) for name, part in zip(kind.names, kind.parts, strict=True)}
    if tag != "list":
        return _SCALARS[tag](value)
    inner = kind.parts[0]
    if len(value):
        for first in value:
            if _holds_something(first, inner):
                break
        try:
            changed = bool(encode(inner, first) != first)
        except ValueError:
            changed = False
        if changed:
            return [encode(inner, item) for item in value]
    return list(value)


_SCALARS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float, "string": str}


def _holds_something(value: Any, kind: Kind) -> bool:
    if isinstance(value, list) and kind.tag == "list":
        return bool(value) and _holds_something(value[0], kind.parts[0])
    return value is not None


def fits_quickly(kind: Kind) -> Fits | None:
    """Return a test that is true only of json values that fit for certain; None if every value fits.

    Values may come from a parser that gives integers beyond 64 bits as floats, but none that a float cannot hold.
    """
    if kind.tag == "int":
        return lambda value: value.__class__ in _INTEGERS
    if kind.tag == "float":
        return lambda value: value.__class__ in _FLOATS or (value.__class__ is int and -_INT64 < value < _INT64)
    if kind.tag == "struct":
        return _fits_struct(kind)
    if kind.tag == "list":
        inner = fits_quickly(kind.parts[0])
        if inner is None:
            return lambda value: value is None or value.__class__ is list
        return lambda value: value is None or (value.__class__ is list and all(map(inner, value)))
    return None


def _fits_struct(kind: Kind) -> Fits:
    tests = []
    for name, part in zip(kind.names, kind.parts, strict=True):
        test = fits_quickly(part)
        if test is not None:
            # Most values fit by their class: a call for each would take as long as the parser.
            tests.append((name, _BY_CLASS.get(part.tag, _NOTHING), test))

    def fits(value: Any) -> bool:
        if value.__class__ is not dict:
            return value is None
        get = value.get
        for name, classes, test in tests:
            if (item := get(name)).__class__ not in classes and not test(item):
                return False
        return True

    return fits


class Column:
    """Tells of the contents of one field, as often as it occurs, whether they fit into its column."""

    def __init__(self, suffix: str, kind: Kind, arrow: Any = None) -> None:
        self.suffix, self.kind = suffix, kind
        self.arrow = arrow  # the type of a table's column to which values are written; None: they are not written
        self.said = ""  # what the reader raises for the last value that did not fit
        self.unwritable = ""  # what Arrow raises for the last value, if it fits but cannot be written
        self.other_type = False  # the last value holds arrays, and Arrow gives it another type than the column has
        self.surely_takes: Fits = fits_quickly(kind) or (lambda _: True)  # json as a fast parser gives it
        if arrow is not None:
            self.surely_takes = lambda _: False

    def takes(self, data: bytes) -> bool | None:
        """Return whether the reader converts a valid field without an exception; None if that is not known."""
        self.unwritable, self.other_type = "", False
        if self.kind.tag == "any" and self.arrow is None:
            return True
        try:
            value = value_of(self.suffix, data)
            if not _like(self.kind, value):
                value = encode(self.kind, value)
        except UnknownColumns:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader raises it too
            self.said = first_line(error)
            return False
        if self.arrow is not None:
            self._write(value)
        return True

    def _write(self, value: Any) -> None:
        import pyarrow as pa

        try:
            made = pa.array([_plain(value)])
            self.other_type = made.type != self.arrow and kind_of(self.suffix.removesuffix(".gz")) in ("npy", "npz")
            made.cast(self.arrow)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            self.unwritable = first_line(error)


def _plain(value: Any) -> Any:
    """Return a value with its arrays as Arrow takes them, of lists and objects as well."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return as_lists(value, sys.maxsize)


def _like(kind: Kind, value: Any) -> bool:
    """Return whether a value is an array of the very dimensions and type that its column has: it fits for certain."""
    dimensions = getattr(value, "ndim", -1)
    for _ in range(dimensions):
        if kind.tag != "list":
            return False
        kind = kind.parts[0]
    return dimensions > 0 and value.dtype.kind in _PLAIN_ARRAYS.get(kind.tag, "")
