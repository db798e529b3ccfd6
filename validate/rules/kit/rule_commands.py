"""Repairs that rules propose."""

import re
from collections.abc import Sequence

from wdsflow.text.shell import command, quote_path
from wdsflow.text.shell import quote_path as quote

from ...finding import Repair

__all__ = ["is_option", "quote", "renamed", "repair"]

_FIELD = re.compile(r"[^/\s.,=][^/\s,=]*")


def repair(urls: Sequence[str], *options: str, safe: bool = True, note: str = "") -> Repair:
    """Return ``wdsflow repair URL... -o repaired OPTIONS`` as a repair.

    Args:
        urls: shards, or the urls of the whole set as the user wrote them.
        options: further words of the command.
        safe: whether no data is lost by it.
        note: what to know before it is run.
    """
    words = ["wdsflow repair", *map(quote_path, urls), "-o repaired", *([command(options)] if options else [])]
    return Repair(" ".join(words), safe, note, shards=tuple(urls), options=options)


def renamed(name: str) -> str:
    """Return the name under which readers leave a field as bytes; "" where an option cannot hold the old one."""
    return f"{name.replace('.', '_')}_raw" if is_option(name) else ""


def is_option(name: str) -> bool:
    """Tell whether the options of ``wdsflow repair`` can hold the name of a field."""
    return _FIELD.fullmatch(name) is not None
