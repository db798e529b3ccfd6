"""How much memory a JPEG's coefficients take while it is decoded."""

from struct import Struct, error

_segment = Struct(">BBH").unpack_from
_frame = Struct(">BHHB").unpack_from

_FRAMES = frozenset((0xC0, 0xC1, 0xC2, 0xC9, 0xCA))
_PROGRESSIVE = frozenset((0xC2, 0xCA))
_SCAN = 0xDA
_MOST_SEGMENTS = 10_000
_BLOCK = 128  # bytes: 64 coefficients of 2


def coefficient_bytes(data: bytes) -> int | None:
    """Return the bytes of coefficients that libjpeg holds at once: 0 for one scan, all of them for more scans.

    A sequential file has more scans where its first one lacks a component. None where the header is unusual.
    ITU T.81, annexes A.1.1 (sizes of components) and A.2.3 (minimum coded units).
    """
    position, size, progressive, components = 2, 0, False, 0
    try:
        for _ in range(_MOST_SEGMENTS):
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF or length < 2:
                return None
            if marker in _FRAMES:
                progressive = marker in _PROGRESSIVE
                _bits, height, width, components = _frame(data, position + 4)
                size = _size(data, position + 10, width, height, components)
            elif marker == _SCAN:
                return size if components and (progressive or data[position + 4] < components) else 0
            position += 2 + length
    except (error, IndexError, ValueError, ZeroDivisionError):
        pass
    return None


def _size(data: bytes, position: int, width: int, height: int, components: int) -> int:
    factors = [divmod(data[position + 3 * number + 1], 16) for number in range(components)]
    across, down = max(factor[0] for factor in factors), max(factor[1] for factor in factors)
    units = -(-width // (8 * across)) * -(-height // (8 * down))
    return _BLOCK * units * sum(horizontal * vertical for horizontal, vertical in factors)


def first_scan(data: bytes) -> int | None:
    """Return where the first scan of a JPEG begins; None if it has none, or has something unusual before it."""
    position = 2
    try:
        for _ in range(_MOST_SEGMENTS):
            prefix, marker, length = _segment(data, position)
            if prefix != 0xFF or length < 2:
                return None
            if marker == _SCAN:
                return position
            position += 2 + length
    except error:
        pass
    return None
