"""Columns of a table from Python's values.

``pyarrow.array`` gives the same, but imports pandas if it is installed, which takes longer than writing the ledgers of
a hundred shards.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = bytes.maketrans(b"\0\1", b"01")
_LARGEST = (1 << 31) - 1  # bytes of a column of texts


def numbers(values: Sequence[float | None]) -> "pa.Array":
    """Return a column of float64. Raises OverflowError for a number that is too large for it."""
    import pyarrow as pa

    return _plain(pa.float64(), "d", values)


def integers(values: Sequence[int | None]) -> "pa.Array":
    """Return a column of int64."""
    import pyarrow as pa

    return _plain(pa.int64(), "q", values)


def booleans(values: Sequence[bool | None]) -> "pa.Array":
    """Return a column of truth values."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(values), _bits(list(map(bool, values)))])


def texts(values: Sequence[str | None]) -> "pa.Array":
    """Return a column of texts. Raises UnicodeEncodeError for one that UTF-8 cannot hold."""
    import pyarrow as pa

    nones = values.count(None)
    if nones == len(values):
        return pa.nulls(nones, pa.string())
    validity = _validity(values) if nones else None
    filled: Sequence[Any] = [value or "" for value in values] if nones else values
    joined = "".join(filled)
    data = joined.encode()
    if len(data) > _LARGEST:
        return pa.array(values, pa.string())
    sizes = map(len, filled if joined.isascii() else [value.encode() for value in filled])
    offsets = pa.py_buffer(array("i", accumulate(sizes, initial=0)))
    return pa.Array.from_buffers(pa.string(), len(values), [validity, offsets, pa.py_buffer(data)])


def names(values: Sequence[str | None]) -> "pa.Array":
    """Return a column of texts with few distinct values."""
    import pyarrow as pa

    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.dictionary(pa.int32(), pa.string()))
    different = [value for value in dict.fromkeys(values) if value is not None]
    places: dict[str | None, int | None] = {value: place for place, value in enumerate(different)}
    places[None] = None
    indices = list(map(places.__getitem__, values))
    return pa.DictionaryArray.from_arrays(_plain(pa.int32(), "i", indices), texts(different))


@overload
def in_utf8(text: str) -> str: ...


@overload
def in_utf8(text: None) -> None: ...


def in_utf8(text: str | None) -> str | None:
    """Return text that UTF-8 can encode."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _plain(kind: "pa.DataType", code: str, values: Sequence[Any]) -> "pa.Array":
    import pyarrow as pa

    validity = None
    try:
        data = array(code, values)
    except TypeError:  # there is a None
        validity, data = _validity(values), array(code, [0 if value is None else value for value in values])
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def _validity(values: Sequence[Any]) -> "pa.Buffer | None":
    there = [value is not None for value in values]
    return None if all(there) else _bits(there)


def _bits(flags: list[bool]) -> "pa.Buffer":
    import pyarrow as pa

    # As digits of a binary number, the first flag last: the fastest way for such short lists.
    digits = bytes(flags[::-1]).translate(_DIGITS)
    return pa.py_buffer(int(digits or b"0", 2).to_bytes(-(-len(flags) // 8), "little"))
