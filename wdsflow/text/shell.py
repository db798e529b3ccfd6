"""Commands to paste into a shell: one line each, with every word quoted."""

import shlex
from collections.abc import Iterable


class Command(str):
    """Text to paste into a shell; other text describes in words what to do."""

    __slots__ = ()


_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


def quote(word: str) -> str:
    r"""Quote one word for a POSIX shell; hidden characters are spelled out, for bash and zsh.

    >>> print(quote("a.tar"), quote("my shard.tar"), quote("a\x1b.tar"), quote("--workers"))
    a.tar 'my shard.tar' $'a\x1b.tar' --workers
    """
    if word.isprintable():
        return shlex.quote(word)
    data = word.encode("utf-8", "surrogateescape")
    parts = (_SPELLED.get(char := chr(byte)) or (char if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data)
    return f"$'{''.join(parts)}'"


def quote_path(path: str) -> str:
    """Quote a path or url; a leading dash does not make it an option.

    >>> print(quote_path("-a.tar"))
    ./-a.tar
    """
    return quote(f"./{path}" if path.startswith("-") else path)


def command(words: Iterable[str]) -> str:
    """Return words as a command line.

    >>> print(command(["wdsflow", "repair", "s/{0..3}.tar", "--caption", "json:my caption"]))
    wdsflow repair 's/{0..3}.tar' --caption 'json:my caption'
    """
    return " ".join(map(quote, words))
