"""Joins values of samples to a column of a batch. Imports numpy and torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from wdsflow.training.pixels.image_work import as_tensor


def joined(items: Sequence[Any]) -> object:
    """Join what a user's map returned for each sample: tuples, lists and dicts by column, anything else as one column."""
    first = items[0]
    if isinstance(first, Mapping):
        return {name: joined([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return [joined(list(column)) for column in zip(*items, strict=True)]
    return stack(items)


def stack(items: Sequence[object]) -> object:
    """Return tensors or arrays of one shape as one tensor, numbers as a tensor, anything else as a list."""
    first = items[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf":
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if len(arrays) == len(items) and {(item.shape, item.dtype) for item in arrays} == {
            (first.shape, first.dtype)
        }:
            return torch.from_numpy(np.stack(arrays))
    items = [as_tensor(item) for item in items]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    if len(tensors) == len(items) and {item.shape for item in tensors} == {tensors[0].shape}:
        return torch.stack(tensors)
    numbers = [item for item in items if isinstance(item, (int, float))]
    return torch.tensor(numbers) if len(numbers) == len(items) else list(items)
