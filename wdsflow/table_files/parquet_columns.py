"""Columns written to Parquet files: NumPy arrays, and SQL that converts them to DuckDB types."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Column:
    """A value for each row.

    Attributes:
        arrays: of one value for each row.
        sql: the value of a row; ``{0}``, ``{1}`` ... stand for its values in the arrays.
    """

    arrays: "Sequence[NDArray[Any]]"
    sql: str


def number_column(values: Sequence[float | None]) -> Column:
    """Return a DOUBLE column, in which NaN is a number.

    Raises OverflowError for an integer that is too large.
    """
    import numpy as np

    # None becomes NaN.
    numbers = np.array(values, np.float64)
    is_missing = np.isnan(numbers)
    if not is_missing.any():
        return Column((numbers,), "{0}")
    for row in np.flatnonzero(is_missing).tolist():
        is_missing[row] = values[row] is None
    # DuckDB takes NaN in an array of NumPy for NULL.
    return Column((numbers, is_missing), "CASE WHEN NOT {1} THEN coalesce({0}, 'nan'::DOUBLE) END")


def integer_column(values: Sequence[int | None]) -> Column:
    """Return a column of BIGINT."""
    import numpy as np

    is_missing = np.array([value is None for value in values], np.bool_)
    numbers = np.array([value or 0 for value in values], np.int64)
    return Column((numbers, is_missing), "CASE WHEN NOT {1} THEN {0} END")


def truth_column(values: Sequence[bool | None]) -> Column:
    """Return a column of BOOLEAN."""
    return Column((object_array(values),), "{0}::BOOLEAN")


def text_column(values: Sequence[str | None]) -> Column:
    """Return a column of VARCHAR. Raises UnicodeEncodeError for a text that UTF-8 cannot hold."""
    return Column((text_array(values),), "{0}::VARCHAR")


def bytes_column(values: Sequence[bytes | None]) -> Column:
    """Return a column of BLOB."""
    return Column((object_array(values),), "{0}::BLOB")


def json_column(values: Sequence[str | None], structure: str) -> Column:
    """Return a column of values given as JSON.

    ``structure`` has their types, in the form that DuckDB's ``from_json`` takes.
    """
    # The SQL is a format string, in which braces that are not placeholders are doubled.
    types = structure.replace("{", "{{").replace("}", "}}")
    return Column((text_array(values),), f"from_json({{0}}::VARCHAR, '{types}')")


def vector_column(vectors: "NDArray[np.float32]", missing: "NDArray[np.bool_]") -> Column:
    """Return a column of FLOAT[] from vectors, (rows, d)."""
    import numpy as np

    dimensions = range(vectors.shape[1])
    arrays = [np.ascontiguousarray(vectors[:, dimension]) for dimension in dimensions]
    # Array 0 is ``missing``.
    items = ", ".join(f"{{{dimension + 1}}}" for dimension in dimensions)
    # Lists, not arrays of a fixed size: other libraries cannot read the ones that DuckDB writes,
    # where some are NULL.
    return Column((missing, *arrays), f"CASE WHEN NOT {{0}} THEN [{items}]::FLOAT[] END")


def vector_lists_column(lists: "Sequence[NDArray[np.float32] | None]") -> Column:
    """Return a column of FLOAT[][] from the vectors of each row, (n, d), or None."""
    plain = [None if vectors is None else vectors.tolist() for vectors in lists]
    return Column((object_array(plain),), "{0}::FLOAT[][]")


def text_array(values: Sequence[str | None]) -> "NDArray[np.object_]":
    """Return an array of texts and None.

    Raises UnicodeEncodeError for a text that cannot be encoded as UTF-8.

    DuckDB does not survive such a text.
    """
    for value in values:
        if value is not None and not value.isascii():
            value.encode()
    return object_array(values)


def object_array(values: Sequence[object]) -> "NDArray[np.object_]":
    """Return an array of objects, which are no arrays themselves."""
    import numpy as np

    return np.fromiter(values, np.object_, len(values))
