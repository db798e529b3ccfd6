"""Why a finished output is written again.

A value that decides it has changed, or one of its files.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from wdsflow.shards.source.base import SourceError

from .file_identity import Identity, why_changed
from .line import Line


def why_redone(
    line: Line,
    origin: Callable[[], Mapping[str, object]],
    files: Iterable[tuple[Path, Identity]],
    explain: Callable[[str, object, object], str],
) -> str:
    """Return why a finished output is written again; "" if it is kept.

    Args:
        line: of the output.
        origin: returns the values that decide the output now. May raise SourceError.
        files: of the output, with their identity.
        explain: returns the reason for a value of the origin: its name, its value before, and its
            value now.
    """
    try:
        return _changed_value(line, origin(), explain) or _changed_file(files)
    except SourceError as error:
        return f"it cannot be read now: {error}"


def _changed_value(
    line: Line, origin: Mapping[str, object], explain: Callable[[str, object, object], str]
) -> str:
    for name, now in origin.items():
        before = line.origin.get(name)
        if before == now:
            continue
        # As it would be read from a line, where a tuple is a list.
        now_as_read = json.loads(json.dumps(now))
        if before != now_as_read:
            return explain(name, before, now_as_read)
    return ""


def _changed_file(files: Iterable[tuple[Path, Identity]]) -> str:
    for path, identity in files:
        reason = why_changed(path, identity)
        if reason:
            return reason
    return ""
