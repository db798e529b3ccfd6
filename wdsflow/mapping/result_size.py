"""What the results of a function take, without a look at each number in a long list."""

import sys
from collections.abc import Mapping
from typing import Any

from wdsflow.memory.weigh import weigh

_MANY, _LOOKED_AT = 256, 64


def weigh_results(value: Any) -> int:
    """Return about how many bytes a value takes: arrays, tensors, images and tables by their content, text as it is.

    Of a list with more than 256 entries, 64 are weighed.

    >>> weigh_results([0.5] * 1_000_000) > 20_000_000
    True
    """
    if isinstance(value, Mapping):
        return sum(map(weigh_results, value.values())) + 64 * len(value)
    if isinstance(value, (list, tuple)):
        step = max(1, len(value) // _LOOKED_AT) if len(value) > _MANY else 1
        looked_at = value[::step]
        return sum(map(weigh_results, looked_at)) * len(value) // max(len(looked_at), 1) + 8 * len(value)
    return sys.getsizeof(value) if isinstance(value, (int, float)) else weigh(value)
