"""Sets values inside JSON, and leaves everything else unchanged."""

import json
import re
from collections.abc import Callable, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NamedTuple

_BLANK = re.compile(r"[ \t\n\r]*")
_scan: Callable[[str, int], tuple[object, int]] = vars(json.JSONDecoder())["scan_once"]


class BrokenJson(ValueError):
    """Text that is not a json object."""


class _Member(NamedTuple):
    """A member of a JSON object.

    ``start`` is the position of its name; ``value`` and ``end`` are those of its value.
    """

    name: str
    start: int
    value: int
    end: int


def set_in_json(data: bytes, values: Sequence[tuple[str, str]]) -> bytes:
    r"""Return a JSON object with values set in it, in its own encoding.

    The values are given as JSON. Empty bytes are an empty object.

    A name with dots is a path through objects, unless an object has a member of exactly that name.
    An existing value is replaced in place, a new one is added after the last; missing objects on a
    path are created.

    Raises BrokenJson if it, or a value on the path, is not an object.

    >>> set_in_json(b'{"a": 1.10, "b": {"c": null}}', [("b.d", '"x"'), ("a", "2")])
    b'{"a": 2, "b": {"c": null, "d": "x"}}'
    """
    if not data.strip():
        data = b"{}"
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
        for name, value in values:
            text = _set(text, _skip(text, 0), name, value)
        return text.encode(encoding)
    except (ValueError, RecursionError) as error:
        raise BrokenJson(str(error)) from None


def _set(text: str, start: int, name: str, value: str, *, inner: bool = False) -> str:
    """Set a value in the object that begins at ``start``."""
    members, end = _members(text, start)
    if not inner and _skip(text, end) != len(text):
        raise BrokenJson("text after the object")
    # The last of duplicate names counts, as in all readers.
    by_name = {member.name: member for member in members}
    member = by_name.get(name)
    if member is not None:
        return text[: member.value] + value + text[member.end :]
    first, dot, rest = name.partition(".")
    if dot and first and rest:
        outer = by_name.get(first)
        if outer is not None:
            if text[outer.value] != "{":
                raise BrokenJson(f"{first} is not an object")
            return _set(text, outer.value, rest, value, inner=True)
        name, value = first, _nested(rest, value)
    spelled = json.dumps(name, ensure_ascii=False)
    if not members:
        return f"{text[: start + 1]}{spelled}: {value}{text[end - 1 :]}"
    # The new member gets the blanks of the last one.
    last = members[-1]
    if len(members) > 1:
        blank = text[members[-2].end : last.start].partition(",")[2]
    else:
        blank = text[start + 1 : last.start] or " "
    return f"{text[: last.end]},{blank}{spelled}: {value}{text[last.end :]}"


def _nested(path: str, value: str) -> str:
    """Return an object with the value at a path."""
    first, dot, rest = path.partition(".")
    name = json.dumps(first, ensure_ascii=False)
    inner = _nested(rest, value) if dot else value
    return f"{{{name}: {inner}}}"


def _members(text: str, at: int) -> tuple[list[_Member], int]:
    """Return the members of the object that begins here, and the position after its end."""
    if text[at : at + 1] != "{":
        raise BrokenJson("it is not an object")
    members: list[_Member] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise BrokenJson(f"no name at character {at}")
        name, after = scanstring(text, at + 1)
        colon = _skip(text, after)
        if text[colon : colon + 1] != ":":
            raise BrokenJson(f"no colon at character {colon}")
        value = _skip(text, colon + 1)
        try:
            _, end = _scan(text, value)
        except StopIteration:
            raise BrokenJson(f"no value at character {value}") from None
        members.append(_Member(name, at, value, end))
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "}":
            return members, at + 1
        if mark != ",":
            raise BrokenJson(f"no comma at character {at}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """Return the position after blanks."""
    blanks = _BLANK.match(text, at)
    # It also matches an empty text.
    assert blanks is not None
    return blanks.end()
