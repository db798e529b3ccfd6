"""Text for terminals and shells: control characters and quotes."""

import shlex
import unicodedata
from collections.abc import Iterable

from .secrets import redact

# Controls; format characters (bidirectional overrides, zero-width ones); line and paragraph
# separators; lone surrogates, which stand for bytes that are not UTF-8; private and unassigned
# characters are shown as they are.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


def escape(text: str, limit: int = 120) -> str:
    r"""Return ``text`` on one line, with hidden characters spelled out.

    It is cut to ``limit`` characters.

    Escaping twice changes nothing. A byte that is not UTF-8 (decoded with ``surrogateescape``)
    shows as ``\xff``.

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


def without_middle(text: str, limit: int = 120) -> str:
    """Return ``text`` without its middle if it is longer than ``limit`` characters.

    The two ends identify a key.

    >>> without_middle("abcdefghijkl", limit=9), without_middle("abc")
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
    # A byte that is not UTF-8.
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char in "\n\r\t":
        return _SPELLED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


class Command(str):
    """Text to paste into a shell; other text describes in words what to do."""

    __slots__ = ()


def quote(word: str) -> str:
    r"""Quote one word for a POSIX shell; hidden characters are spelled out, for bash and zsh.

    >>> print(quote("a.tar"), quote("my shard.tar"), quote("a\x1b.tar"), quote("--workers"))
    a.tar 'my shard.tar' $'a\x1b.tar' --workers
    """
    if word.isprintable():
        return shlex.quote(word)
    parts = map(_quoted_byte, word.encode("utf-8", "surrogateescape"))
    return f"$'{''.join(parts)}'"


def _quoted_byte(byte: int) -> str:
    """Return a byte as bash and zsh read it between $' and '."""
    char = chr(byte)
    if char in _SPELLED:
        return _SPELLED[char]
    return char if 32 <= byte < 127 else f"\\x{byte:02x}"


def quote_path(path: str) -> str:
    """Quote a path or url, and hide its credentials.

    A leading dash does not make it an option.

    >>> print(quote_path("-a.tar"), quote_path("https://user:word@host/a.tar"))
    ./-a.tar 'https://***@host/a.tar'
    """
    return quote(f"./{path}" if path.startswith("-") else redact(path))


def command(words: Iterable[str]) -> str:
    """Return words as a command line, in which passwords, tokens and signatures are hidden.

    >>> print(command(["wdsflow", "repair", "s/{0..3}.tar", "--caption", "json:my caption"]))
    wdsflow repair 's/{0..3}.tar' --caption 'json:my caption'
    """
    return " ".join(quote(redact(word)) for word in words)
