"""Sizes in bytes, as people write them, and of values."""

import re
import sys
from decimal import Decimal
from typing import Any

_DECIMAL = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15}
_BINARY = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50}
_UNITS = _DECIMAL | _BINARY
_FORM = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def parse_size(text: str | int) -> int:
    """Return bytes: "2GiB" is 2 * 1024**3, "1.5 GB" is 1,500,000,000; a number without unit is bytes.

    Upper and lower case are the same. A fraction of a byte is cut off. Raises ValueError for anything else, "2G" among
    it, which means one thing to some tools and the other to others.

    >>> parse_size("2GiB"), parse_size("1.5GB"), parse_size("300_000"), parse_size(7)
    (2147483648, 1500000000, 300000, 7)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a size cannot be negative: {text}")
        return text
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ValueError(f"{text!r} is not a size; write a number and a unit, such as '512MiB' or '1.5GB'")
    number, unit = found[1].replace("_", ""), found[2].lower()
    if unit in {"k", "m", "g", "t", "p"}:
        letter = unit.upper()
        raise ValueError(f"{text!r} has two meanings; write '{number}{letter}iB' (1024) or '{number}{letter}B' (1000)")
    if unit and unit not in _UNITS:
        raise ValueError(f"{text!r}: no such unit as {found[2]!r}; there are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB")
    if not unit and "." in number:
        raise ValueError(f"{text!r} has no unit; write it as '{number}GiB' or '{number}GB', or whole bytes")
    return int(Decimal(number) * _UNITS[unit or "b"])


def format_size(size: int) -> str:
    """Return a size for people, in binary units with at most one digit after the point.

    >>> format_size(2147483648), format_size(1500), format_size(999)
    ('2 GiB', '1.5 KiB', '999 B')
    """
    if size < 0:
        return f"-{format_size(-size)}"
    if size < 1024:
        return f"{size} B"
    names = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    for index, name in enumerate(names):
        tenths = round(size * 10 / (1 << 10 * (index + 1)))
        if tenths < 10240 or name == names[-1]:
            break
    return f"{tenths // 10} {name}" if tenths % 10 == 0 else f"{tenths / 10} {name}"


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
