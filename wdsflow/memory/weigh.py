"""How much memory a value takes, without importing what it is made by."""

import sys
from typing import Any


def weigh(value: Any) -> int:
    """Return about how many bytes a sample or a value in it takes: bytes, text, arrays, tensors, images, containers.

    The content counts, and a little for what is around it. What is neither counts as Python's ``sys.getsizeof`` says.

    >>> weigh({"jpg": bytes(1000)}) >= 1000
    True
    """
    total, heap, seen = 0, [value], set[int]()
    while heap:
        item = heap.pop()
        itself = sys.getsizeof(item, 64)
        # An array that owns its data has it in its size already; a view and a tensor have not.
        total += max(itself, 64 + _content(item))
        if not isinstance(item, (dict, list, tuple, set, frozenset)):
            continue
        if id(item) in seen:  # a container that holds itself
            continue
        seen.add(id(item))
        heap.extend(item.values() if isinstance(item, dict) else item)
    return total


def _content(item: Any) -> int:
    if isinstance(item, (bytes, bytearray, str, int, float, dict, list, tuple, set, frozenset, type(None))):
        return 0
    size = getattr(item, "nbytes", None)  # numpy, torch, memoryview
    if isinstance(size, int):
        return size
    shape, bands = getattr(item, "size", None), getattr(item, "getbands", None)
    if callable(bands) and isinstance(shape, tuple) and len(shape) == 2:  # Pillow, which keeps RGB in 4 bytes a pixel
        return int(shape[0]) * int(shape[1]) * (1 if len(bands()) == 1 and item.mode not in {"I", "F"} else 4)
    return 0
