"""Checks what a custom score returns: one number, truth value or text for each item. Anything else is refused."""

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from wdsflow.memory.batching.item_outcome import OutputsError

from ..base import Kind, Scalar
from ..score_errors import ScoreError

_WANTED: dict[Any, str] = {"number": "a number", "boolean": "True or False", "text": "a text"}


def scalar(value: Any, kind: Kind, method: str) -> Scalar:
    """Return the value of one item as float or int, bool or str. ``method`` returned it: "score()".

    Scalars of NumPy and PyTorch are accepted, and arrays that hold one value. Raises ScoreError "not-finite" for NaN and
    infinities, OverflowError for a number that no float can hold, TypeError for anything else.
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
    raise TypeError(f"{method} returned {described(value)}: it must return {_WANTED[kind]} for each item")


def plain_item(value: Any) -> Any:
    """Return what an array or a scalar of a library holds: its value where it is a single one, otherwise lists."""
    return _single(value.tolist()) if hasattr(value, "tolist") else value


def rows_of(value: Any) -> list[Any] | None:
    """Return the values for several items, of a list or of an array of shape (n,) or (n, 1); None for a single value."""
    if isinstance(value, (list, tuple)):
        return [plain_item(row) for row in value]
    if hasattr(value, "tolist") and getattr(value, "shape", None):
        return [_single(row) for row in value.tolist()]
    return None


def one_each(outputs: Any, count: int) -> list[Any]:
    """Return what ``score()`` returned for a batch, one plain value for each of ``count`` items.

    An array has shape (n,) or (n, 1); () is accepted for a single item. Raises OutputsError if the values cannot be
    told apart by item.
    """
    items = f"{count:,} item{'s' * (count != 1)}"
    if hasattr(outputs, "tolist"):
        shape: tuple[int, ...] = tuple(getattr(outputs, "shape", None) or ())
        rows = outputs.tolist() if shape[:1] == (count,) else [outputs.tolist()]
        values = [_single(row) for row in rows]
        if len(values) != count or any(isinstance(value, list) for value in values):
            raise OutputsError(f"score() returned {described(outputs)} for {items}: the shape must be ({count:,},)")
        return values
    if not isinstance(outputs, Iterable) or isinstance(outputs, (str, bytes, Mapping, set, frozenset)):
        raise OutputsError(f"score() returned {described(outputs)} for {items}: it must return one value for each")
    values = [plain_item(value) for value in outputs]
    if len(values) != count:
        raise OutputsError(f"score() returned {len(values):,} values for {items}: it must return one for each")
    return values


def described(value: Any) -> str:
    """Name a value that is refused.

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


def _single(value: Any) -> Any:
    """Return the value within lists that hold nothing else."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value
