"""The memory that a value takes, estimated."""

import sys
from typing import Any

# Bytes of an object without its content.
_OVERHEAD = 64
# Whose size Python knows.
_PLAIN = (bytes, bytearray, str, int, float, dict, list, tuple, set, frozenset, type(None))


def estimated_size(value: Any) -> int:
    """Return the approximate size in bytes of a sample, or of a value in it.

    Values are bytes, text, arrays, tensors, images or containers.

    The content counts, with a small overhead. Other values count by Python's ``sys.getsizeof``.

    >>> estimated_size({"jpg": bytes(1000)}) >= 1000
    True
    """
    total = 0
    heap = [value]
    seen: set[int] = set()
    while heap:
        item = heap.pop()
        # An array that owns its data has it in its size already; a view and a tensor have not.
        total += max(sys.getsizeof(item, _OVERHEAD), _OVERHEAD + _content(item))
        if not isinstance(item, (dict, list, tuple, set, frozenset)):
            continue
        # A container that holds itself.
        if id(item) in seen:
            continue
        seen.add(id(item))
        heap.extend(item.values() if isinstance(item, dict) else item)
    return total


def _content(item: Any) -> int:
    """Return the bytes of an array, a tensor or an image; 0 for values whose size Python knows."""
    if isinstance(item, _PLAIN):
        return 0
    # numpy, torch, memoryview.
    size = getattr(item, "nbytes", None)
    if isinstance(size, int):
        return size
    shape = getattr(item, "size", None)
    bands = getattr(item, "getbands", None)
    if not callable(bands) or not isinstance(shape, tuple) or len(shape) != 2:
        return 0
    # Pillow, which keeps RGB in 4 bytes a pixel.
    is_byte = len(bands()) == 1 and item.mode not in {"I", "F"}
    return int(shape[0]) * int(shape[1]) * (1 if is_byte else 4)
