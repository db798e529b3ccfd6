"""Captions in json members."""

import json
import re
from typing import NamedTuple

# Bytes of json that are read.
LARGEST = 16 << 20
# Half of a surrogate pair, which cannot be encoded.
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class CaptionField(NamedTuple):
    """The location of captions: the field that holds JSON, and the names to try in it.

    Names of nested objects are joined by dots.
    """

    member: str
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text that ``parse_caption_field`` takes."""
        return f"{self.member}:{';'.join(self.names)}"


def parse_caption_field(text: str) -> CaptionField:
    """Parse ``json:description;alt``. Raises ValueError if it is not of that form.

    >>> parse_caption_field("json:meta.caption;alt")
    CaptionField(member='json', names=('meta.caption', 'alt'))
    """
    member, colon, names = text.partition(":")
    found = tuple(name.strip() for name in names.split(";") if name.strip())
    if not colon or not member.strip() or not found:
        raise ValueError(f"{text!r} is not of the form json:FIELD or json:FIELD;OTHER")
    return CaptionField(member.strip().lower(), found)


def caption_of(data: bytes, names: tuple[str, ...]) -> str | None:
    """Return the first non-empty string under one of the names, stripped; None if there is none.

    A list gives its first non-empty string. Json that cannot be parsed holds no caption.

    >>> caption_of(b'{"a": " ", "b": ["", "a cat "]}', ("a", "b"))
    'a cat'
    """
    try:
        tree = parse_json(data)
    except ValueError:
        return None
    for name in names:
        text = caption_in(look_up(tree, name))
        if text is not None:
            return text
    return None


def caption_in(value: object) -> str | None:
    """Return a JSON value's caption, stripped of white space.

    It is the string itself, or the first non-empty string of a list.
    """
    for item in value if isinstance(value, list) else (value,):
        if not isinstance(item, str):
            continue
        text = item.strip()
        # Half of a pair of surrogates cannot be written as UTF-8.
        if text and (text.isascii() or not _HALF_PAIR.search(text)):
            return text
    return None


def parse_json(data: bytes | bytearray | memoryview | str) -> object:
    """Parse JSON like Python's json module, including NaN and UTF-16.

    Raises ValueError, also if it is nested too deep.
    """
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    if isinstance(data, memoryview):
        data = data.tobytes()
    try:
        # Huge integers, too.
        return json.loads(data.removeprefix("\ufeff") if isinstance(data, str) else data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def look_up(tree: object, name: str) -> object:
    """Return the value under a name, or under a dotted path if the name does not exist.

    None if neither exists.

    Of a list of objects the first one that has it counts.

    >>> look_up({"a.b": 1, "a": {"b": 2, "c": 3}}, "a.b"), look_up({"a": {"b": 2, "c": 3}}, "a.c")
    (1, 3)
    >>> look_up({"captions": [{"id": 7}, {"text": "a cat"}]}, "captions.text")
    'a cat'
    """
    if isinstance(tree, list):
        values = (look_up(item, name) for item in tree)
        return next((value for value in values if value is not None), None)
    if not isinstance(tree, dict):
        return None
    if name in tree:
        return tree[name]
    first, dot, rest = name.partition(".")
    return look_up(tree.get(first), rest) if dot else None
