"""What a json field holds: whether Python's ``json`` reads it, and whether it has a caption."""

import json
import re
from collections.abc import Callable
from typing import Any

from wdsflow.scan.evidence import BAD, NO_CAPTION, OK
from wdsflow.shards.caption_field import caption_in

_loads_fast: Callable[[bytes], Any] | None = None
try:
    import orjson

    _loads_fast = orjson.loads
except ImportError:
    pass

# What orjson takes and Python's json refuses: numbers beyond Python's limit of digits, and nesting close to
# Python's recursion limit. Both need some length, so short documents are not searched for them.
_LONG = 1000
_MANY_DIGITS = re.compile(rb"[0-9]{600}")
_DEEP = 200
_NESTED = 3  # objects within objects that are searched for captions


def look_at_json(data: bytes, wanted: tuple[str, ...]) -> tuple[str, tuple[str, ...], dict[str, Any] | None]:
    """Return ``(status, notes, object)`` of a json field; object is None unless it is a json object.

    Status is BAD exactly where ``json.loads(data)`` raises. With ``wanted`` (OpenCLIP 4's --json-text-key, in the
    order of its alternatives) it is NO_CAPTION where none of these holds a string with more than white space.
    Notes: "json.bad", or "json.deep" where only the depth is at fault, or "json.not-object". Integers of more
    than 64 bits may come as floats.
    """
    try:
        value = _loads(data)
    except RecursionError:
        return BAD, ("json.deep",), None
    except ValueError:
        return BAD, ("json.bad",), None
    if not isinstance(value, dict):
        return NO_CAPTION if wanted else OK, ("json.not-object",), None
    if wanted:
        for key in wanted:
            text = value.get(key)
            if isinstance(text, str) and text and not text.isspace():
                break
        else:
            return NO_CAPTION, (), value
    return OK, (), value


def texts_in(value: dict[str, Any], path: str = "", depth: int = _NESTED) -> list[tuple[str, str, bool]]:
    """Return ``(path, text, plain)`` of each name in a json object; text is "" where it holds no caption.

    Paths and captions are those of the stage JsonText: names of objects within objects are joined by dots, and of a
    list the first string counts. ``plain``: no list, and not within another object; OpenCLIP 4 takes nothing else.
    """
    found: list[tuple[str, str, bool]] = []
    for name, item in value.items():
        if path and "." in name:
            continue  # no path leads there
        kind = item.__class__
        if kind is str:
            text = item.strip()  # what caption_in does, for the many: a call a name would take as long as the parser
            found.append((path + name, text if text.isascii() else caption_in(text) or "", not path))
            continue
        found.append((path + name, (kind is list and caption_in(item)) or "", False))
        if kind is dict and depth and "." not in name:
            found += texts_in(item, f"{path}{name}.", depth - 1)
    return found


def _loads(data: bytes) -> Any:
    """Do what ``json.loads`` does, through orjson where both surely agree."""
    if _loads_fast is not None and (len(data) < _LONG or not _near_a_limit(data)):
        try:
            return _loads_fast(data)
        except ValueError:
            pass  # NaN, byte-order marks, UTF-16, lone surrogates: json may take what orjson does not
    return json.loads(data)


def _near_a_limit(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > _DEEP or _MANY_DIGITS.search(data) is not None
