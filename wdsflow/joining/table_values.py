"""A value of the table as it is stored and written: its kind, and the bytes that a member gets."""

import json
import math
from datetime import date, time

TEXT, BYTES, JSON, UNUSABLE = "text", "bytes", "json", "unusable"
KINDS = (TEXT, BYTES, JSON, UNUSABLE)

# The kind, and the bytes: text in UTF-8, bytes as they are, JSON, or the reason why a value is
# unusable. None: null.
StoredValue = tuple[str, bytes | None]

NULL_VALUE: StoredValue = (JSON, None)
_NOT_UTF8: StoredValue = (UNUSABLE, b"text that UTF-8 cannot hold")
_NOT_JSON: StoredValue = (UNUSABLE, b"a value that JSON cannot hold")


def stored_value(value: object) -> StoredValue:
    r"""Return a value in the form in which it is stored.

    NaN and infinities become null; dates, decimals and the like become text.

    >>> stored_value("é"), stored_value([1, None]), stored_value(float("nan"))
    (('text', b'\xc3\xa9'), ('json', b'[1, null]'), ('json', None))
    >>> stored_value([date(2024, 2, 29)]), stored_value([b"bytes"])
    (('json', b'["2024-02-29"]'), ('unusable', b'a value that JSON cannot hold'))
    """
    try:
        if isinstance(value, str):
            return TEXT, value.encode()
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return NULL_VALUE
        if isinstance(value, bytes):
            return BYTES, value
        if type(value) in {int, float}:
            return JSON, repr(value).encode()
        if type(value) in {bool, list, dict}:
            return JSON, _json(value).encode()
        return TEXT, _text(value).encode()
    except UnicodeEncodeError:
        return _NOT_UTF8
    except (TypeError, ValueError, RecursionError):
        return _NOT_JSON


def json_of(value: StoredValue) -> str:
    """Return a value that is text or JSON as JSON."""
    kind, data = value
    text = (data or b"").decode()
    return json.dumps(text, ensure_ascii=False) if kind == TEXT else text


def _json(value: object) -> str:
    text = _ENCODER.encode(value)
    if "NaN" not in text and "Infinity" not in text:
        return text
    # JSON has no such numbers: inside lists and objects
    # they become null, like a value of their own.
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)


def _text(value: object) -> str:
    """Return dates, decimals and the like as text. Raises TypeError for bytes."""
    if isinstance(value, (bytes, bytearray)):
        raise TypeError
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_text)
