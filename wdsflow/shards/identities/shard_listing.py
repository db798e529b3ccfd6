"""Which shards the folders of some shards hold."""

import os
from collections.abc import Collection, Iterable

from wdsflow.shards.shard_endings import SUFFIXES
from wdsflow.shards.source.base import SourceError, local_path
from wdsflow.shards.source.remote_listing import is_listing
from wdsflow.shards.source.remote_listing import listed as remote_list


def is_whole(folder: str, names: Iterable[str]) -> bool:
    """Return whether the folders of shards are known to hold no other shards."""
    known = set(names)
    try:
        found = listed(folder, known)
    except (SourceError, OSError):
        return False
    return found is not None and known.issuperset(found)


def listed(folder: str, names: Collection[str]) -> list[str] | None:
    """Return the names of all shards in the folders of some, now; None where there is no list. Raises SourceError."""
    found: list[str] = []
    for inside in sorted({name.rpartition("/")[0] for name in names}):
        place = f"{folder}{inside}/" if inside else folder
        path = local_path(place)
        if not folder or (path is None and not is_listing(place)):
            return None
        if path is None:
            there = [url.removeprefix(folder) for url in remote_list(place)]
            if place.startswith("http") and set(names).isdisjoint(there):
                return None  # a page without links to the shards is no list of them
            found += there
        elif os.path.isdir(path):
            tars = (name for name in os.listdir(path) if name.lower().endswith(SUFFIXES) and name[0] != ".")
            found += [f"{inside}/{name}" if inside else name for name in tars]
    return found
