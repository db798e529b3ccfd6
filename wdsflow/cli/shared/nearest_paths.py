"""Suggestions for a path that does not exist."""

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.shard import PIPE, Shard
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import local_path
from wdsflow.shards.urls import NoShards, deeper, expand, with_dots

_STANDS_FOR_MANY = re.compile(r"[*?\[{]")


def nearest_shards(pattern: str) -> str:
    """Return the existing shards nearest to a pattern without matches; "" if none is similar, or if it has matches.

    A file of the named folder, the folder itself, a folder deeper in it, or a folder next to it; a range with two dots;
    the entries of a list.
    """
    if (meant := with_dots(pattern)) != pattern:
        return meant if local_path(meant) is None or _holds_shards(meant) else ""
    path = None if pattern.startswith(PIPE) else local_path(pattern)
    if path is None or path.startswith("@"):
        return ""
    if os.path.isfile(path):
        return f"@{pattern}" if _holds_shards(f"@{path}") else ""
    if _holds_shards(pattern):
        # They exist; the problem is another one.
        return ""
    parts = Path(path).parts
    known = 0
    while known < len(parts) and os.path.isdir(Path(*parts[: known + 1])):
        known += 1
    top = str(Path(*parts[:known])) if known else "."
    missing, rest = (parts[known], parts[known + 1 :]) if known < len(parts) else ("", ())
    try:
        names = sorted(os.listdir(top))
    except OSError:
        return ""
    found = [os.path.join(top, name) if known else name for name in names if not name.startswith(".")]
    shards = [each for each in found if os.path.isfile(each) and each.lower().endswith(".tar")]
    folders = [each for each in found if os.path.isdir(each) and _holds_shards(each)]
    wanted = os.path.join(top, missing) if known else missing
    if not rest and _STANDS_FOR_MANY.search(missing):
        stems = (os.path.splitext(wanted)[0], wanted)
        others = [f"{stem}{ending}" for ending in SUFFIXES for stem in stems]
        return next((each for each in (*others, top) if _holds_shards(each)), "")
    if not rest and (near := _closest(wanted, shards)):
        return near[0]
    close = _closest(wanted, folders)
    if not rest and not close and shards and _holds_shards(top):
        return top
    if not missing and (pattern := deeper(path)):
        return pattern
    for folder in close:
        return next((each for each in (os.path.join(folder, *rest), folder) if _holds_shards(each)), "")
    return ""


def nearest_ledger(path: Path) -> Path | None:
    """Return the folder with ledgers, next to a path or here, whose name is nearest to it; None if there is none."""
    from wdsflow.filtering.run_folder import Layout

    found: dict[str, Path] = {}
    for folder in (Path(), path.parent):
        # A folder that does not exist, or cannot be read.
        with suppress(OSError):
            for each in sorted(folder.iterdir()):
                if Layout(each).has_ledgers:
                    found[each.name] = each
    near = _closest(path.name, [*found]) or [*found][: len(found) == 1]
    return found[near[0]] if near else None


def existing(urls: Iterable[str]) -> list[Shard]:
    """Return the shards that match patterns, without local files that do not exist."""
    return [url for url in expand(urls, allow_pipe=True).urls if url.path is None or os.path.exists(url.path)]


def _closest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known path whose last part is nearest to that of a path, if any is similar."""
    last = os.path.basename(name).lower()
    alike = [(difflib.SequenceMatcher(None, last, os.path.basename(each).lower()).ratio(), each) for each in known]
    best = max((ratio for ratio, _ in alike), default=0.0)
    return [each for ratio, each in alike if ratio == best >= 0.6][:1]


def _holds_shards(path: str) -> bool:
    try:
        return bool(existing([path]))
    except NoShards:
        return False
