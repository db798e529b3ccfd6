"""What a sample became, on its way from another process. Imports torch in functions only."""

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsflow.training.pixels.image_work import as_array


def joined_rows(items: Sequence[Any]) -> NDArray[Any] | None:
    """Return texts as one array with a row for each; None if they cannot be joined."""
    rows = [row for item in items if (row := as_array(item)) is not None]
    if not rows or len(rows) < len(items) or not rows[0].ndim or len({type(item) for item in items}) > 1:
        return None
    if any(row.shape != rows[0].shape or row.dtype != rows[0].dtype for row in rows):
        return None
    return np.stack(rows)


def packed(value: Any) -> bytes:
    """Return the pickle of a value, with tensors as arrays: torch's own way would take many times as long."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Return how a tensor is made again; nothing for other things."""
        array = None if isinstance(value, np.ndarray) else as_array(value)
        return NotImplemented if array is None else (_tensor, (array,))


def _tensor(array: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array)
