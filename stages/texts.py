"""Texts as samples hold them: bytes before ``wds.decode``, ``str`` after it."""

from typing import Any, Literal

Output = Literal["same", "str", "bytes"]


def written(text: str, source: Any, output: Output) -> str | bytes:
    """Return a text as ``output`` asks for it; "same": as UTF-8 bytes if ``source``, which it came from, is bytes."""
    raw = output == "bytes" or (output == "same" and isinstance(source, (bytes, bytearray, memoryview)))
    return text.encode() if raw else text
