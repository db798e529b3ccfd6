"""Columns of a table from Python's values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(values: Sequence[float | None]) -> "pa.Array":
    """Return a column of float64. Raises OverflowError for a number that is too large for it."""
    import pyarrow as pa

    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):  # integers to which the nearest float is not equal
        return pa.array([None if value is None else float(value) for value in values], pa.float64())


def integers(values: Sequence[int]) -> "pa.Array":
    """Return a column of int64."""
    import pyarrow as pa

    return pa.array(values, pa.int64())


def booleans(values: Sequence[bool | None]) -> "pa.Array":
    """Return a column of truth values."""
    import pyarrow as pa

    return pa.array(values, pa.bool_())


def texts(values: Sequence[str | None]) -> "pa.Array":
    """Return a column of texts. Raises UnicodeEncodeError for one that UTF-8 cannot hold."""
    import pyarrow as pa

    return pa.array(values, pa.string())


def names(values: Sequence[str | None]) -> "pa.Array":
    """Return a column of texts with few distinct values."""
    return texts(values).dictionary_encode()


@overload
def in_utf8(text: str) -> str: ...


@overload
def in_utf8(text: None) -> None: ...


def in_utf8(text: str | None) -> str | None:
    """Return text that UTF-8 can encode."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()
