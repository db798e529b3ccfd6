"""Pictures of a batch as one array, and their cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .prepare import Pixels


def pixel_count(picture: "Pixels") -> int:
    """Return the pixels of an array (3, height, width), its cost."""
    return int(picture.shape[1] * picture.shape[2])


def stacked_pictures(batch: "Sequence[object]") -> "NDArray[Any] | None":
    """Return pictures of one shape as one array (n, ...); a view if they are contiguous in memory.

    That is how the process of a model receives them. The view is valid while ``batch`` is held.
    None for other items.
    """
    import numpy as np

    arrays = _arrays_of_one_shape(batch)
    if not arrays:
        return None
    if not _are_contiguous(arrays):
        return np.stack(arrays)
    first = arrays[0]
    shape = (len(arrays), *first.shape)
    return np.lib.stride_tricks.as_strided(first, shape, (first.nbytes, *first.strides))


def _arrays_of_one_shape(batch: "Sequence[object]") -> "list[NDArray[Any]]":
    """Return the items if all are arrays of one shape and type, otherwise an empty list.

    The arrays must have more than two dimensions.
    """
    import numpy as np

    arrays: list[NDArray[Any]] = []
    for item in batch:
        if not isinstance(item, np.ndarray) or item.ndim <= 2:
            return []
        if arrays and (item.shape, item.dtype) != (arrays[0].shape, arrays[0].dtype):
            return []
        arrays.append(item)
    return arrays


def _are_contiguous(arrays: "Sequence[NDArray[Any]]") -> bool:
    """Return whether each array begins in memory where the one before it ends."""
    start = _address(arrays[0])
    for number, array in enumerate(arrays):
        if not array.flags.c_contiguous or _address(array) != start + number * array.nbytes:
            return False
    return True


def _address(array: "NDArray[Any]") -> int:
    address: int = array.__array_interface__["data"][0]
    return address
