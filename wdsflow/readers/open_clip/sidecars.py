"""Files next to the shards that tell how many samples there are, and where they are wrong.

Only local folders are looked at, as OpenCLIP does. Every file is read up to a bound, and nothing in it is run.
"""

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wdsflow.readers.index_facts import index_facts
from wdsflow.readers.sidecar_facts import (
    SidecarFact,
    compare,
    gone,
    in_words,
    read_json,
    read_text,
    reason,
    unlisted,
    whole,
    written_by,
)
from wdsflow.records.unfinished import COUNTS, Unfinished, unfinished_run
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.escape import escape

_LARGEST = 64 << 20  # bytes of sizes.json; LAION-5B's would have 10 MB
_LEN_LARGEST = 1000  # bytes of __len__, which holds one number
_STATS_LARGEST = 1 << 20
_KINDS = dict(zip(COUNTS, ("sizes", "len"), strict=True))  # options of ``wdsflow index``


@dataclass(slots=True)
class Folder:
    """The counts that one folder holds, as OpenCLIP would read them."""

    sizes: Mapping[str, Any] | None = None  # sizes.json, if it is an object
    sizes_error: str = ""  # the exception it ends with, if it exists and is none
    length: int | float | None = None  # __len__
    length_error: str = ""
    stats: dict[str, int] = field(default_factory=dict)  # shard's base name -> successes, from NNNNN_stats.json
    without_stats: list[str] = field(default_factory=list)  # shards that have none, in a folder where others do
    unfinished: Unfinished | None = None  # the run that has not written all shards


@dataclass(slots=True)
class Sidecars:
    """Everything found next to the shards. Folders are named as OpenCLIP does: ``os.path.dirname`` of the url."""

    folders: dict[str, Folder] = field(default_factory=dict)
    facts: list[SidecarFact] = field(default_factory=list)


def read_sidecars(urls: Sequence[str], evidence: Evidence) -> Sidecars:
    """Read sizes.json, __len__, img2dataset's stats and indexes next to the shards and compare them with the shards.

    Args:
        urls: the shards, expanded.
        evidence: what the scan found in them.
    """
    found = Sidecars()
    by_folder: dict[str, list[ShardEvidence]] = {os.path.dirname(url): [] for url in urls}
    for shard in evidence.shards:
        by_folder.setdefault(os.path.dirname(shard.url), []).append(shard)
    for name, shards in by_folder.items():
        path = name or "."
        if not os.path.isdir(path):
            continue
        folder = found.folders[name] = Folder(unfinished=unfinished_run(path))
        _sizes(path, folder, shards, found)
        _length(path, folder, shards, found, alone=len(by_folder) == 1)
        _stats(path, folder, shards, found)
        found.facts += index_facts(path, shards)
    return found


def _sizes(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    name = os.path.join(path, "sizes.json")
    try:
        sizes = read_json(name, _LARGEST)
    except (OSError, ValueError, RecursionError) as error:
        folder.sizes_error, told = reason(error), in_words(error)
    else:
        if sizes is None and not os.path.isfile(name):
            return
        if not isinstance(sizes, dict):
            told = f"it is a {type(sizes).__name__}, not an object"
            folder.sizes_error = f"TypeError: {told}"
    if folder.sizes_error:
        facts = [SidecarFact(escape(name), "malformed", told)]
    else:
        folder.sizes = sizes
        facts = [*unlisted(name, sizes, shards), *gone(name, sizes)]
        facts += compare(name, {base: whole(count) for base, count in sizes.items()}, shards)
    files = [each for each in COUNTS if os.path.isfile(os.path.join(path, each))]
    found.facts += written_by(facts, path, files, *(_KINDS[each] for each in files))


def _length(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars, *, alone: bool) -> None:
    name = os.path.join(path, "__len__")
    try:
        text = read_text(name, _LEN_LARGEST)
        if text is None:
            return
        value = ast.literal_eval(text)  # as OpenCLIP does; literals only, and short
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        folder.length_error = reason(error)
        told = in_words(error) if isinstance(error, (OSError, UnicodeDecodeError)) else "it holds no number"
    else:
        if isinstance(value, (int, float)):
            folder.length = value
        else:
            told = f"it holds a {type(value).__name__}, not a number"
            folder.length_error = f"TypeError: {told}"
    facts = []
    if folder.length_error:
        facts = [SidecarFact(escape(name), "malformed", told)]
    elif alone and folder.sizes is None and not any(shard.error for shard in shards):
        samples = sum(shard.samples for shard in shards)
        if folder.length != samples:
            facts = [SidecarFact(escape(name), "stale", f"says {folder.length:,}; there are {samples:,}")]
    found.facts += written_by(facts, path, COUNTS[1:], _KINDS[COUNTS[1]])


def _stats(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    for shard in shards:
        base = os.path.basename(shard.url)
        name = os.path.join(path, base.partition(".")[0] + "_stats.json")
        try:
            stats = read_json(name, _STATS_LARGEST)
        except (OSError, ValueError, RecursionError) as error:
            found.facts.append(SidecarFact(escape(name), "malformed", in_words(error)))
            continue
        successes = whole(stats.get("successes")) if isinstance(stats, dict) else None
        if successes is not None:
            folder.stats[base] = successes
        elif stats is None:
            folder.without_stats.append(base)
    if not folder.stats:
        folder.without_stats.clear()
    found.facts += compare(os.path.join(path, "*_stats.json"), folder.stats, shards)
