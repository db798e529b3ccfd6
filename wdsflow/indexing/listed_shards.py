"""The shards that existing index files of timm and Energon list."""

import json
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from .count_files import TIMM
from .energon_files import NV_INFO


def listed_shards(folder: Path, kinds: Collection[str]) -> dict[Path, list[str]]:
    """Return the base names of the shards that each index file of the given kinds lists.

    Unreadable index files are left out.
    """
    readers: dict[str, tuple[Path, Callable[[Path], list[str]]]] = {
        "timm": (folder / TIMM, _listed_by_timm),
        "energon": (folder / NV_INFO, _listed_by_energon),
    }
    listed = {}
    for kind, (path, shards_in) in readers.items():
        if kind in kinds and path.is_file():
            with suppress(OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
                listed[path] = [os.path.basename(str(name)) for name in shards_in(path)]
    return listed


def _listed_by_timm(path: Path) -> list[str]:
    splits = json.loads(path.read_bytes())["splits"]
    return [name for split in splits.values() for name in split["filenames"]]


def _listed_by_energon(path: Path) -> list[str]:
    return list(json.loads(path.read_bytes())["shard_counts"])
