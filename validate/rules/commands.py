"""Commands that can be pasted into a shell."""

import shlex
from collections.abc import Sequence

from ..finding import Repair

_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


def quote(word: str) -> str:
    r"""Quote one word for a POSIX shell; control characters are spelled out, for bash and zsh.

    >>> print(quote("a.tar"), quote("my shard.tar"), quote("a\x1b.tar"))
    a.tar 'my shard.tar' $'a\x1b.tar'
    """
    if word.isprintable():
        return shlex.quote(f"./{word}" if word.startswith("-") else word)
    data = word.encode("utf-8", "surrogateescape")
    parts = (_SPELLED.get(char := chr(byte)) or (char if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data)
    return f"$'{''.join(parts)}'"


def repair(urls: Sequence[str], *options: str, safe: bool = True, note: str = "") -> Repair:
    """Return ``wdsflow repair URL... -o repaired OPTIONS`` as a repair.

    Args:
        urls: shards, or the urls of the whole set as the user wrote them.
        options: further words of the command.
        safe: whether no data is lost by it.
        note: what to know before it is run.
    """
    words = ["wdsflow", "repair", *(quote(url) for url in urls), "-o", "repaired", *(quote_option(o) for o in options)]
    return Repair(" ".join(words), safe, note)


def quote_option(word: str) -> str:
    """Quote an option or its value: like ``quote``, but a leading dash stays."""
    return word if word.startswith("--") and word[2:].replace("-", "").isalnum() else quote(word)


def download(urls: Sequence[str], what: str = "the shard") -> Repair:
    """Return the cure for contents that are gone: look at what is left, then fetch the original again."""
    words = ["wdsflow", "inspect", *(quote(url) for url in urls)]
    return Repair(" ".join(words), note=f"then copy or write {what} again: what is missing cannot be restored")
