"""The size of what a function returned, in bytes."""

import sys
from collections.abc import Mapping

from wdsflow.memory.weigh import estimated_size

# Entries of a list that are all weighed, and those that are weighed if it has more.
_MANY = 256
_SAMPLED = 64
# Bytes of an entry of a mapping, and of a list, without its value.
_MAPPING_ENTRY = 64
_LIST_ENTRY = 8


def estimated_result_size(value: object) -> int:
    """Return the approximate size of a value in bytes.

    Of a list with more than 256 entries, about 64 are weighed.

    >>> estimated_result_size([0.5] * 1_000_000) > 20_000_000
    True
    """
    if isinstance(value, Mapping):
        return sum(map(estimated_result_size, value.values())) + _MAPPING_ENTRY * len(value)
    if isinstance(value, (list, tuple)):
        step = max(1, len(value) // _SAMPLED) if len(value) > _MANY else 1
        sample = value[::step]
        weight = sum(map(estimated_result_size, sample))
        return weight * len(value) // max(len(sample), 1) + _LIST_ENTRY * len(value)
    if isinstance(value, (int, float)):
        return sys.getsizeof(value)
    return estimated_size(value)
