"""Escapes text from data: it cannot move a cursor, colour a terminal or break a line."""

import unicodedata

# Controls; format characters (bidirectional overrides, zero-width ones); line and paragraph separators; lone surrogates,
# which stand for bytes that are not UTF-8; private and unassigned characters are shown as they are.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def escape(text: str, limit: int = 120) -> str:
    r"""Return ``text`` on one line, with hidden characters spelled out, cut to ``limit`` characters.

    Escaping twice changes nothing. A byte that is not UTF-8 (decoded with ``surrogateescape``) shows as ``\xff``.

    >>> escape("a\x1b[31m\n\u202eb\udcff")
    'a\\x1b[31m\\n\\u202eb\\xff'
    >>> escape("abcdefgh", limit=5)
    'ab...'
    """
    if len(text) > limit:
        text = text[: max(limit - 3, 0)] + "..."
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) for char in text)


def both_ends(text: str, limit: int = 120) -> str:
    """Return ``text`` without its middle if it has more than ``limit`` characters: of a key, the ends tell it from others.

    >>> both_ends("abcdefghijkl", limit=9), both_ends("abc")
    ('abc...jkl', 'abc')
    """
    if len(text) <= limit:
        return text
    kept = limit - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"


def _spelled(char: str) -> str:
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
