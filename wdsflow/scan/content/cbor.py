"""Whether bytes are well-formed CBOR (RFC 8949)."""

from struct import Struct, error

# Deepest nesting.
_DEEPEST = 512
# Lengths by additional information.
_LENGTHS = {24: Struct(">B"), 25: Struct(">H"), 26: Struct(">I"), 27: Struct(">Q")}
# Major types.
_BYTES, _TEXT, _ARRAY, _MAP, _TAG = 2, 3, 4, 5, 6
# The additional information of an item without a length, and the byte that ends it.
_INDEFINITE, _BREAK = 31, 0xFF


def cbor_is_valid(data: bytes) -> bool:
    """Return whether the bytes start with one well-formed CBOR item (RFC 8949).

    Walked here, not by the library: that one recurses in C without a limit, and deep nesting ends
    the process.
    """
    # Items still to come in each open array, map or tag; -1 without a known number.
    open_items: list[int] = [1]
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
    """Return the end of an item's head and string, and the number of items nested in it.

    The number is -1 if they last until a break.
    """
    if info == _INDEFINITE and major in (_BYTES, _TEXT, _ARRAY, _MAP):
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
        # A map has keys and values.
        return position, 2 * value if major == _MAP else value
    return position, 1 if major == _TAG else 0
