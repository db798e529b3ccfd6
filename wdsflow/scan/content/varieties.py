"""Kinds of values in one shard, with the place where each was seen first: rare ones are where code fails."""

from collections.abc import Iterator
from typing import Any

from wdsflow.images.image_header import ImageHeader
from wdsflow.scan.evidence import Tally

_MOST = 1024  # kinds that are told apart in one shard
_NAMES = 64  # of one object that are looked at
_NESTED = 2  # objects and lists within one another


class Varieties:
    """Sorts values into kinds: by type, by sign, and by order of magnitude."""

    def __init__(self, found: dict[str, Tally]) -> None:
        self.found = found

    def size(self, key: str, suffix: str, offset: int, size: int) -> None:
        """Note a field that is not looked into."""
        self._note(f"{suffix}: {size.bit_length()}", key, offset)

    def text(self, key: str, suffix: str, offset: int, text: str | None) -> None:
        """Note a caption; None for one that is no text."""
        self._note(f"{suffix}: {_kind(text)}", key, offset)

    def image(self, key: str, suffix: str, offset: int, header: ImageHeader | None) -> None:
        """Note an image by its header; None for what is no image."""
        kind = "none"
        if header is not None:
            kind = f"{header.format} {header.mode} {header.width.bit_length()} x {header.height.bit_length()}"
        self._note(f"{suffix}: {kind}", key, offset)

    def json(self, key: str, offset: int, value: Any) -> None:
        """Note each value in a json, and which names it has."""
        for kind in _kinds(value, "json", _NESTED):
            self._note(kind, key, offset)

    def _note(self, kind: str, key: str, offset: int) -> None:
        tally = self.found.get(kind)
        if tally is None:
            if len(self.found) >= _MOST:
                return
            tally = self.found[kind] = Tally()
        tally.add(key, offset)


def _kinds(value: Any, path: str, depth: int) -> Iterator[str]:
    yield f"{path}: {_kind(value)}"
    if isinstance(value, dict) and depth:
        names = sorted(value)[:_NAMES]
        yield f"{path} has {' '.join(names)}"[:500]
        for name in names:
            yield from _kinds(value[name], f"{path}.{name}"[:200], depth - 1)
    elif isinstance(value, list) and depth:
        for item in value[:8]:
            yield from _kinds(item, f"{path}[]", depth - 1)


def _kind(value: Any) -> str:
    """Return the type of a value, and its order of magnitude.

    >>> [_kind(each) for each in (None, True, 0, -300, "", "a cat", "été", [1, 2])]
    ['None', 'True', 'int 0', 'int -9', 'str 0', 'str 3', 'str 2 beyond ASCII', 'list 2']
    """
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"int {'-' * (value < 0)}{value.bit_length()}"
    if isinstance(value, float):
        return f"float {'-' * (value < 0)}{int(abs(value)).bit_length() if abs(value) < 1e300 else value}"
    if isinstance(value, str):
        plain = "" if value.isascii() else " beyond ASCII"
        blank = " blank" if value.isspace() else ""
        return f"str {len(value).bit_length()}{plain}{blank}"
    return f"{type(value).__name__} {len(value).bit_length()}"
