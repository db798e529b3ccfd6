"""Files next to the shards that tell how many samples there are, and where they are wrong.

Only local folders are looked at, as OpenCLIP does. Every file is read up to a bound, and nothing in it is run.
"""

import ast
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.escape import escape

_LARGEST = 64 << 20  # bytes of sizes.json or an index; LAION-5B's would have 10 MB
_LEN_LARGEST = 1000  # bytes of __len__, which holds one number
_STATS_LARGEST = 1 << 20
_INDEXES = 20  # other json files of a folder that are looked at
_STALE_NAMED = 20

Problem = Literal["missing", "malformed", "stale"]


@dataclass(frozen=True, slots=True)
class SidecarFact:
    """One thing that is wrong with one file next to the shards."""

    path: str  # escaped
    problem: Problem
    detail: str
    shards: int = 1  # how many shards it concerns


@dataclass(slots=True)
class Folder:
    """The counts that one folder holds, as OpenCLIP would read them."""

    sizes: Mapping[str, Any] | None = None  # sizes.json, if it is an object
    sizes_error: str = ""  # the exception it ends with, if it exists and is none
    length: int | float | None = None  # __len__
    length_error: str = ""
    stats: dict[str, int] = field(default_factory=dict)  # shard's base name -> successes, from NNNNN_stats.json
    without_stats: list[str] = field(default_factory=list)  # shards that have none, in a folder where others do


@dataclass(slots=True)
class Sidecars:
    """Everything found next to the shards. Folders are named as OpenCLIP does: ``os.path.dirname`` of the url."""

    folders: dict[str, Folder] = field(default_factory=dict)
    facts: list[SidecarFact] = field(default_factory=list)


def read_sidecars(urls: Sequence[str], evidence: Evidence) -> Sidecars:
    """Read sizes.json, __len__, img2dataset's stats and wids indexes next to the shards and compare the counts.

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
        folder = found.folders[name] = Folder()
        _sizes(path, folder, shards, found)
        _length(path, folder, shards, found, alone=len(by_folder) == 1)
        _stats(path, folder, shards, found)
        _indexes(path, shards, found)
    return found


def _read(path: str, most: int) -> str | None:
    """Return a file's text, None if there is no such file; raises ValueError or OSError with a short reason."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"larger than {most:,} bytes")
    return data.decode("utf-8")


def _load(path: str, most: int) -> Any:
    text = _read(path, most)
    return None if text is None else json.loads(text)


def _reason(error: Exception) -> str:
    return escape(f"{type(error).__name__}: {error}", 120)


def _sizes(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    name = os.path.join(path, "sizes.json")
    try:
        sizes = _load(name, _LARGEST)
    except (OSError, ValueError, RecursionError) as error:
        folder.sizes_error = _reason(error)
    else:
        if sizes is None and not os.path.isfile(name):
            return
        if not isinstance(sizes, dict):
            folder.sizes_error = f"TypeError: it is a {type(sizes).__name__}, not an object"
    if folder.sizes_error:
        found.facts.append(SidecarFact(escape(name), "malformed", folder.sizes_error))
        return
    folder.sizes = sizes
    absent = [os.path.basename(shard.url) for shard in shards if os.path.basename(shard.url) not in sizes]
    if absent:
        detail = f"does not list {_names(absent)}"
        found.facts.append(SidecarFact(escape(name), "missing", detail, len(absent)))
    _compare(name, {base: _whole(count) for base, count in sizes.items()}, shards, found)


def _length(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars, *, alone: bool) -> None:
    name = os.path.join(path, "__len__")
    try:
        text = _read(name, _LEN_LARGEST)
        if text is None:
            return
        value = ast.literal_eval(text)  # as OpenCLIP does; literals only, and short
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        folder.length_error = _reason(error)
    else:
        if isinstance(value, (int, float)):
            folder.length = value
        else:
            folder.length_error = f"TypeError: it holds a {type(value).__name__}, not a number"
    if folder.length_error:
        found.facts.append(SidecarFact(escape(name), "malformed", folder.length_error))
    elif alone and folder.sizes is None and not any(shard.error for shard in shards):
        samples = sum(shard.samples for shard in shards)
        if folder.length != samples:
            found.facts.append(SidecarFact(escape(name), "stale", f"says {folder.length:,}; there are {samples:,}"))


def _stats(path: str, folder: Folder, shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    for shard in shards:
        base = os.path.basename(shard.url)
        name = os.path.join(path, base.partition(".")[0] + "_stats.json")
        try:
            stats = _load(name, _STATS_LARGEST)
        except (OSError, ValueError, RecursionError) as error:
            found.facts.append(SidecarFact(escape(name), "malformed", _reason(error)))
            continue
        successes = _whole(stats.get("successes")) if isinstance(stats, dict) else None
        if successes is not None:
            folder.stats[base] = successes
        elif stats is None:
            folder.without_stats.append(base)
    if not folder.stats:
        folder.without_stats.clear()
    _compare(os.path.join(path, "*_stats.json"), folder.stats, shards, found)


def _indexes(path: str, shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    """Compare wids indexes, which may have any name: they are known by their first field."""
    names = [name for name in os.listdir(path) if name.endswith(".json") and not name.endswith("_stats.json")]
    for name in sorted(names)[:_INDEXES]:
        full = os.path.join(path, name)
        if not os.path.isfile(full):
            continue
        try:
            with open(full, "rb") as stream:
                if b"wids-shard-index" not in stream.read(4096):
                    continue
            listed = _load(full, _LARGEST)["shardlist"]
            counts = {os.path.basename(str(entry["url"])): _whole(entry["nsamples"]) for entry in listed}
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            found.facts.append(SidecarFact(escape(full), "malformed", _reason(error)))
            continue
        absent = [os.path.basename(shard.url) for shard in shards if os.path.basename(shard.url) not in counts]
        if absent:
            found.facts.append(SidecarFact(escape(full), "missing", f"does not list {_names(absent)}", len(absent)))
        _compare(full, counts, shards, found)


def _compare(name: str, counts: Mapping[str, int | None], shards: Sequence[ShardEvidence], found: Sidecars) -> None:
    """Add a fact if counts are not those of the shards; shards that could not be read are left out."""
    wrong = []
    for shard in shards:
        base = os.path.basename(shard.url)
        if base in counts and not shard.error and counts[base] != shard.samples:
            wrong.append(f"{escape(base)}: {escape(str(counts[base]), 30)} instead of {shard.samples}")
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        found.facts.append(SidecarFact(escape(name), "stale", ", ".join(wrong[:3]) + more, len(wrong)))


def _whole(value: Any) -> int | None:
    """Return what ``int()`` makes of a count, None if it raises."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(escape(name) for name in names[:3]) + more
