"""Whether msgpack and cbor fields would decode."""

from importlib import import_module
from importlib.util import find_spec
from struct import Struct, error

MOST_MSGPACK = 64 << 20
_DEEPEST = 512
_LENGTHS = {24: Struct(">B"), 25: Struct(">H"), 26: Struct(">I"), 27: Struct(">Q")}
_BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = 2, 3, 4, 5, 6, 7
_INDEFINITE, _BREAK = 31, 0xFF


def has_library(name: str) -> bool:
    """Return whether a top-level module can be imported here, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def msgpack_is_sound(data: bytes) -> bool:
    """Return whether ``msgpack.unpackb(data)`` takes the bytes; the library itself limits lengths and depth."""
    try:
        import_module("msgpack").unpackb(data)
    except Exception:  # noqa: BLE001 - it raises ValueError, TypeError, UnpackException and more
        return False
    return True


def cbor_is_sound(data: bytes) -> bool:
    """Return whether the bytes start with one well-formed CBOR item (RFC 8949).

    Walked here, not by the library: that one recurses in C without a limit, and deep nesting ends the process.
    """
    open_items: list[int] = [1]  # items still to come in each open array, map or tag; -1 without a known number
    position = 0
    try:
        while open_items:
            if open_items[-1] == 0:
                open_items.pop()
                continue
            if len(open_items) > _DEEPEST:
                return False
            first = data[position]
            position += 1
            if first == _BREAK:
                if open_items.pop() != -1:
                    return False
                continue
            if open_items[-1] > 0:
                open_items[-1] -= 1
            position, children = _cbor_item(data, position, first >> 5, first & 31)
            if children:
                open_items.append(children)
    except (error, IndexError, ValueError):
        return False
    return True


def _cbor_item(data: bytes, position: int, major: int, info: int) -> tuple[int, int]:
    """Return where the item's head and string end, and how many items belong to it (-1: until a break)."""
    if info == _INDEFINITE:
        if major not in (_BYTES, _TEXT, _ARRAY, _MAP):
            raise ValueError
        return position, -1
    if info > 27:
        raise ValueError
    value = info
    if info in _LENGTHS:
        (value,) = _LENGTHS[info].unpack_from(data, position)
        position += _LENGTHS[info].size
    if major in (_BYTES, _TEXT):
        end = position + value
        if end > len(data):
            raise ValueError
        if major == _TEXT:
            str(data[position:end], "utf-8")
        return end, 0
    if major in (_ARRAY, _MAP):
        if value > len(data):
            raise ValueError
        return position, value * (2 if major == _MAP else 1)
    return position, 1 if major == _TAG else 0
