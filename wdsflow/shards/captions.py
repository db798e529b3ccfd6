"""Take a caption out of a json member."""

import json
from typing import Any, NamedTuple

LARGEST = 16 << 20  # bytes of json that are read


class CaptionField(NamedTuple):
    """Where captions are: the field that holds json, and the names to try in it, with dots for nested ones."""

    member: str
    names: tuple[str, ...]


def parse_caption_field(text: str) -> CaptionField:
    """Parse ``json:description;alt``. Raises ValueError where it is not of that form.

    >>> parse_caption_field("json:meta.caption;alt")
    CaptionField(member='json', names=('meta.caption', 'alt'))
    """
    member, colon, names = text.partition(":")
    found = tuple(name.strip() for name in names.split(";") if name.strip())
    if not colon or not member.strip() or not found:
        raise ValueError(f"{text!r} is not of the form json:FIELD or json:FIELD;OTHER")
    return CaptionField(member.strip().lower(), found)


def caption_of(data: bytes, names: tuple[str, ...]) -> str | None:
    """Return the first non-empty string under one of the names, stripped; None where there is none.

    A list gives its first non-empty string. Json that cannot be parsed holds no caption.

    >>> caption_of(b'{"a": " ", "b": ["", "a cat "]}', ("a", "b"))
    'a cat'
    """
    tree = _parse(data)
    for name in names:
        value = _look_up(tree, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item.strip() and _encodes(item):
                return item.strip()
    return None


def _parse(data: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)  # also NaN, UTF-16, huge integers
    except (ValueError, RecursionError):
        return None


def _look_up(tree: Any, name: str) -> Any:
    if not isinstance(tree, dict):
        return None
    if name in tree:
        return tree[name]
    first, dot, rest = name.partition(".")
    return _look_up(tree.get(first), rest) if dot else None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True
