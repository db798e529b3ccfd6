"""Text that UTF-8 can encode: names in tars may be any bytes."""

from typing import TypeVar

T = TypeVar("T", str, str | None)


def in_utf8(text: T) -> T:
    r"""Return text that UTF-8 can encode.

    >>> in_utf8("a\udcff")
    'a\\udcff'
    """
    return text if not text or text.isascii() else text.encode("utf-8", "backslashreplace").decode()
