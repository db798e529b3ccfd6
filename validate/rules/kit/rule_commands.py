"""Repairs that rules propose."""

import re
from collections.abc import Sequence

from wdsflow.text.shell import command, quote_path

from ...finding import Repair

# The samples that --drop-bad drops, for any reader.
BAD_SAMPLES = "samples whose image or caption is missing, empty or undecodable, or whose json does not parse"

_FIELD = re.compile(r"[^/\s.,=][^/\s,=]*")


def repair(urls: Sequence[str], *options: str, safe: bool = True, note: str = "") -> Repair:
    """Return ``wdsflow repair URL... -o repaired OPTIONS`` as a repair.

    Args:
        urls: shards, or the urls of the whole set as the user wrote them.
        options: further words of the command.
        safe: whether it loses no data.
        note: what to know before running it.
    """
    words = ["wdsflow repair", *map(quote_path, urls), "-o repaired", *([command(options)] if options else [])]
    return Repair(" ".join(words), safe, note, shards=tuple(urls), options=options)


def leave_out(urls: Sequence[str], *options: str, number: str = "") -> Repair:
    """Return the repair that leaves out samples that cannot be used.

    Args:
        urls: as for ``repair``.
        options: further words of the command.
        number: how many samples remain for which reader, if known.
    """
    note = f"leaves out {BAD_SAMPLES}" + (f": {number}" if number else "")
    return repair(urls, *options, "--drop-bad", safe=False, note=note)


def keep(urls: Sequence[str], where: str, note: str) -> Repair:
    """Return ``wdsflow filter URL... -o filtered --where WHERE`` as a repair.

    Args:
        urls: the urls of the whole set as the user wrote them.
        where: the predicate.
        note: what it leaves out.
    """
    words = ["wdsflow filter", *map(quote_path, urls), "-o filtered", command(["--where", where])]
    return Repair(" ".join(words), safe=False, note=note, where=where)


def renamed(name: str) -> str:
    """Return the name under which readers leave a field as bytes; "" if an option cannot hold the old one."""
    return f"{name.replace('.', '_')}_raw" if is_option(name) else ""


def is_option(name: str) -> bool:
    """Return whether the options of ``wdsflow repair`` can hold the name of a field."""
    return _FIELD.fullmatch(name) is not None
