"""The rows in the result of a tokenizer, whatever it returns."""

from collections.abc import Mapping, Sequence


def rows_of(result: object) -> list[object]:
    """Return the rows of a tokenizer's result.

    Raises TypeError, with a description of the result, if it has none.
    """
    import numpy as np
    import torch

    if isinstance(result, Mapping):
        if "input_ids" not in result:
            raise TypeError(f"a dict without input_ids (its keys: {', '.join(map(str, result))})")
        result = result["input_ids"]
    if isinstance(result, torch.Tensor) and result.dim():
        try:
            # Ten times as fast as rows of torch.
            return list(result.numpy())
        except (RuntimeError, TypeError):
            # On another device, with gradients, or bfloat16.
            return list(result)
    if isinstance(result, np.ndarray) and result.ndim:
        return list(result)
    if not isinstance(result, Sequence) or isinstance(result, (str, bytes)):
        raise TypeError(f"a {type(result).__name__}, which has no rows")
    return [_row(row) for row in result]


def same_row(one: object, other: object) -> bool:
    """Return whether two rows have the same tokens, of the same type."""
    import numpy as np
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    try:
        return bool(one == other)
    except (RuntimeError, TypeError, ValueError):
        return False


def _row(row: object) -> object:
    """Return a list of numbers as an array, integers as int64; other rows unchanged."""
    import numpy as np

    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        return row
    try:
        array = np.asarray(row) if len(row) else np.empty(0, np.int64)
    except ValueError as error:
        # Nested lists of different lengths.
        raise TypeError(f"a row of lists that have different lengths: {error}") from error
    return array if array.dtype.kind in "biuf" else row
