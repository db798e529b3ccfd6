"""Sizes in words and numbers."""

import re
from decimal import Decimal

_DECIMAL = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15}
_BINARY = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50}
_UNITS = _DECIMAL | _BINARY
_FORM = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def parse_size(text: str | int) -> int:
    """Return the bytes of a size such as "2GiB" or "1.5 GB".

    "2GiB" is 2 * 1024**3, "1.5 GB" is 1,500,000,000. A number without a unit is bytes.

    Upper and lower case are the same. A fraction of a byte is cut off. Raises ValueError for other
    text, also "2G", which has two meanings.

    >>> parse_size("2GiB"), parse_size("1.5GB"), parse_size("300_000"), parse_size(7)
    (2147483648, 1500000000, 300000, 7)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a size cannot be negative: {text}")
        return text
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ValueError(
            f"{text!r} is not a size; write a number and a unit, such as '512MiB' or '1.5GB'"
        )
    number = match[1].replace("_", "")
    unit = match[2].lower()
    if unit in {"k", "m", "g", "t", "p"}:
        letter = unit.upper()
        raise ValueError(
            f"{text!r} has two meanings; write '{number}{letter}iB' (1024) or '{number}{letter}B' (1000)"
        )
    if unit and unit not in _UNITS:
        raise ValueError(
            f"{text!r}: no such unit as {match[2]!r}; there are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
        )
    if not unit and "." in number:
        raise ValueError(
            f"{text!r} has no unit; write it as '{number}GiB' or '{number}GB', or whole bytes"
        )
    return int(Decimal(number) * _UNITS[unit or "b"])


def format_size(size: int) -> str:
    """Return a size for messages, in binary units with at most one digit after the point.

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
