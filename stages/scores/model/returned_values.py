"""Values that a custom score returns, as plain Python values, and messages about invalid ones."""

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from wdsflow.memory.batching.attempt import OutputsError
from wdsflow.text.words import how_many

from ..base import Kind, Scalar, ScoreError

_EXPECTED: dict[Kind, str] = {"number": "a number", "boolean": "True or False", "text": "a text"}
# Iterables that are not one value for each item.
_NOT_ROWS = (str, bytes, Mapping, set, frozenset)


def scalar(value: object, kind: Kind, method: str) -> Scalar:
    """Return the value of one item as float or int, bool or str.

    ``method``, such as "score()", is for messages.

    Scalars of NumPy and PyTorch are accepted, and arrays that hold one value. Raises ScoreError
    "not-finite" for NaN and infinities, OverflowError for a number that no float can hold,
    TypeError for anything else.
    """
    plain = plain_item(value)
    if kind == "text" and isinstance(plain, str):
        return str(plain)
    if kind == "boolean" and isinstance(plain, bool):
        return plain
    if kind == "number" and isinstance(plain, (int, Real)) and not isinstance(plain, bool):
        if not math.isfinite(plain):
            raise ScoreError("not-finite", f"{method} returned {float(plain)}")
        return plain if isinstance(plain, int) else float(plain)
    raise TypeError(
        f"{method} returned {described(value)}: it must return {_EXPECTED[kind]} for each item"
    )


def plain_item(value: object) -> object:
    """Return the contents of an array or scalar of a library: a single value, otherwise lists."""
    return _single(value.tolist()) if hasattr(value, "tolist") else value


def rows_of(value: object) -> list[object] | None:
    """Return the values for several items, None for a single value.

    They come from a list, or from an array of shape (n,) or (n, 1).
    """
    if isinstance(value, (list, tuple)):
        return [plain_item(row) for row in value]
    if hasattr(value, "tolist") and getattr(value, "shape", None):
        return [_single(row) for row in value.tolist()]
    return None


def checked_outputs(outputs: object, count: int) -> list[object]:
    """Return the result of ``score()`` for a batch: one plain value for each of ``count`` items.

    An array has shape (n,) or (n, 1); () is accepted for a single item. Raises OutputsError if the
    number of values is wrong.
    """
    items = f"{count:,} item{'s' * (count != 1)}"
    if hasattr(outputs, "tolist"):
        values = _array_values(outputs, count)
        if values is None:
            raise OutputsError(
                f"score() returned {described(outputs)} for {items}: the shape must be ({count:,},)"
            )
        return values
    if not isinstance(outputs, Iterable) or isinstance(outputs, _NOT_ROWS):
        raise OutputsError(
            f"score() returned {described(outputs)} for {items}: it must return one value for each"
        )
    values = [plain_item(value) for value in outputs]
    if len(values) != count:
        raise OutputsError(
            f"score() returned {how_many(len(values), 'value')} for {items}: it must return one for each"
        )
    return values


def described(value: object) -> str:
    """Describe an invalid value.

    >>> described(None), described([1, 2]), described({})
    ('None', 'a list of 2 values', 'a dict')
    """
    if value is None or isinstance(value, bool):
        return str(value)
    shape = getattr(value, "shape", None)
    if shape:
        return f"an array of shape {tuple(shape)}"
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        return f"a {kind} of {len(value):,} value{'s' * (len(value) != 1)}"
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _array_values(array: Any, count: int) -> list[object] | None:
    """Return the values of an array of shape (count,) or (count, 1).

    For one item, the shape may be (). None for another shape.
    """
    contents = array.tolist()
    shape: tuple[int, ...] = tuple(getattr(array, "shape", None) or ())
    rows = contents if shape[:1] == (count,) else [contents]
    values = [_single(row) for row in rows]
    if len(values) != count or any(isinstance(value, list) for value in values):
        return None
    return values


def _single(value: object) -> object:
    """Return the value inside of nested lists of one value."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value
