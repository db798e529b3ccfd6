"""What is wrong with the result of a user's image transform."""

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite, isnan

import numpy as np

_NAN, _INFINITE = "returned numbers that are NaN", "returned numbers that are infinite"


def fault_of(result: object) -> str:
    """Return what makes a result useless for training, in words; "" if nothing does.

    Numbers are Python's, numpy's and torch's, also inside of tuples, lists and dicts.

    >>> fault_of(None), fault_of(float("nan")), fault_of((1, {"mask": [0.5, float("-inf")]})), fault_of(["text", None])
    ('returned None', 'returned numbers that are NaN', 'returned numbers that are infinite', '')
    """
    return "returned None" if result is None else _in_numbers(result)


def _in_numbers(value: object) -> str:
    if isinstance(value, Mapping):
        return _in_numbers(list(value.values()))
    if isinstance(value, (tuple, list)):
        for part in value:
            fault = _in_numbers(part)
            if fault:
                return fault
        return ""
    # Also numpy's float64.
    if isinstance(value, float):
        return "" if isfinite(value) else _named(nan=isnan(value))
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "fc" or np.isfinite(value).all():
            return ""
        return _named(nan=bool(np.isnan(value).any()))
    return _in_tensor(value)


def _in_tensor(value: object) -> str:
    import torch

    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return ""
    # Sparse and quantized tensors: torch does not compute that.
    with suppress(RuntimeError):
        if not torch.isfinite(value).all():
            return _named(nan=bool(torch.isnan(value).any()))
    return ""


def _named(*, nan: bool) -> str:
    return _NAN if nan else _INFINITE
