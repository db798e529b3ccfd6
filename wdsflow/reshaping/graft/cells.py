"""The values of a row of the table as bytes: a line of JSON, whatever they are."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

ABSENT = -1  # in place of a row
_WINDOW = 4 << 20  # bytes of rows that are decoded at once
_AT_ONCE = 4096  # rows, at most
_CODED = b"~"


class Unusable(NamedTuple):
    """A value of the table that no file can hold, and why."""

    reason: str


def coded(row: Sequence[Any]) -> bytes:
    """Return the values as one line, without its end."""
    import orjson

    try:
        return orjson.dumps(row, default=_as_text, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:  # bytes, lone surrogates, integers beyond 64 bits
        return _CODED + json.dumps([*map(_single, row)]).encode()


def decoded_at_once(lines: Iterator[bytes], rows: Sequence[int]) -> Iterator[list[list[Any] | None]]:
    """Yield the values of neighbouring samples, some at a time: memory is bounded, whatever their size.

    Args:
        lines: the lines of the samples that have a row, in their order.
        rows: the row of each sample; those without one, below 0, have None.
    """
    at = 0
    while at < len(rows):
        start, size, texts = at, 0, list[bytes]()
        while at < len(rows) and at - start < _AT_ONCE and size < _WINDOW:
            if rows[at] >= 0:
                texts.append(next(lines, b""))
                size += len(texts[-1])
            at += 1
        if texts and not texts[-1]:
            raise OSError("the rows of the samples are cut: they were changed while they were read")
        values = iter(_all_decoded(texts))
        yield [next(values) if row >= 0 else None for row in rows[start:at]]


def _as_text(value: Any) -> str:
    if isinstance(value, (bytes, str, int)):
        raise TypeError
    return str(value)


def _no_bytes(value: Any) -> str:
    """Return dates and the like as text. Raises TypeError for bytes in a list."""
    if isinstance(value, (bytes, bytearray)):
        raise TypeError
    return str(value)


def _single(value: Any) -> list[Any]:
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    try:
        text = json.dumps(value, ensure_ascii=False, default=_no_bytes, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return ["unusable", "text that UTF-8 cannot hold"]
    except (ValueError, TypeError, RecursionError):
        return ["json", None] if isinstance(value, float) else ["unusable", "a value that JSON cannot hold"]
    return ["json", json.loads(text)]


def _all_decoded(texts: Sequence[bytes]) -> Iterable[list[Any]]:
    import orjson

    try:
        found: list[list[Any]] = orjson.loads(b"[%b]" % b",".join(texts))
    except ValueError:  # some are coded in another way
        return map(_decoded, texts)
    return found


def _decoded(text: bytes) -> list[Any]:
    import orjson

    if not text.startswith(_CODED):
        found: list[Any] = orjson.loads(text)
        return found
    return [
        base64.b64decode(value) if kind == "bytes" else Unusable(value) if kind == "unusable" else value
        for kind, value in json.loads(text[1:])
    ]
