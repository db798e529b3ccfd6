"""Files next to the shards with numbers of samples, and their faults.

Only local folders are looked at, as OpenCLIP does. Every file is read up to a bound, and nothing in
it is run.
"""

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wdsflow.readers.index_facts import index_facts
from wdsflow.readers.sidecar_facts import (
    SidecarFact,
    compare_counts,
    file_error_text,
    int_or_none,
    malformed_file,
    nonexistent_shards,
    read_json,
    read_text,
    unlisted_shards,
    with_index_options,
)
from wdsflow.records.shard_counts import COUNTS
from wdsflow.records.unfinished import Unfinished, unfinished_run
from wdsflow.records.working_folder import remote_url
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.shell import escape

_SIZES, _LEN = COUNTS
# Options of ``wdsflow index`` that write the files.
_OPTIONS = {_SIZES: "sizes", _LEN: "len"}
# Bytes of sizes.json; LAION-5B's would have 10 MB.
_LARGEST_SIZES = 64 << 20
# Bytes of __len__, which holds one number.
_LARGEST_LEN = 1000
# Bytes of img2dataset's stats of one shard.
_LARGEST_STATS = 1 << 20


@dataclass(slots=True)
class FolderCounts:
    """The counts that one folder holds, as OpenCLIP would read them."""

    # sizes.json, if it is an object.
    sizes: Mapping[str, object] | None = None
    # The exception, if it exists and is not an object.
    sizes_error: str = ""
    # __len__.
    length: int | float | None = None
    length_error: str = ""
    # Shard's base name -> successes, from NNNNN_stats.json.
    stats: dict[str, int] = field(default_factory=dict)
    # Shards that have none, in a folder where others do.
    without_stats: list[str] = field(default_factory=list)
    # The run that has not written all shards.
    unfinished: Unfinished | None = None


@dataclass(slots=True)
class Sidecars:
    """All files next to the shards.

    Folders are named as OpenCLIP does: ``os.path.dirname`` of the url.
    """

    folders: dict[str, FolderCounts] = field(default_factory=dict)
    facts: list[SidecarFact] = field(default_factory=list)


def read_sidecars(urls: Sequence[str], evidence: Evidence) -> Sidecars:
    """Read the files next to the shards, and compare them with the evidence.

    These are sizes.json, __len__, img2dataset's stats, and indexes.
    """
    sidecars = Sidecars()
    by_folder: dict[str, list[ShardEvidence]] = {os.path.dirname(url): [] for url in urls}
    for shard in evidence.shards:
        by_folder.setdefault(os.path.dirname(shard.url), []).append(shard)
    for name, shards in by_folder.items():
        path = name or "."
        if not os.path.isdir(path):
            run = _remote_run(path, shards)
            if run is not None:
                sidecars.folders[name] = FolderCounts(unfinished=run)
            continue
        folder = FolderCounts(unfinished=unfinished_run(path))
        sidecars.folders[name] = folder
        sidecars.facts += _read_sizes(path, folder, shards)
        sidecars.facts += _read_length(path, folder, shards, alone=len(by_folder) == 1)
        sidecars.facts += _read_stats(path, folder, shards)
        sidecars.facts += index_facts(path, shards)
    return sidecars


def _remote_run(path: str, shards: Sequence[ShardEvidence]) -> Unfinished | None:
    """Return the run of this machine that has not written all shards of a remote folder."""
    if shards:
        path = os.path.dirname(shards[0].url.exact)
    return None if remote_url(path) is None else unfinished_run(path)


def _raised(error: Exception) -> str:
    return escape(f"{type(error).__name__}: {error}", 120)


def _read_sizes(
    path: str, folder: FolderCounts, shards: Sequence[ShardEvidence]
) -> list[SidecarFact]:
    name = os.path.join(path, _SIZES)
    try:
        sizes = read_json(name, _LARGEST_SIZES)
    except (OSError, ValueError, RecursionError) as error:
        folder.sizes_error = _raised(error)
        facts = [malformed_file(name, file_error_text(error))]
    else:
        # The json null is not an object, either.
        if sizes is None and not os.path.isfile(name):
            return []
        if isinstance(sizes, dict):
            folder.sizes = sizes
            facts = [*unlisted_shards(name, sizes, shards), *nonexistent_shards(name, sizes)]
            facts += compare_counts(
                name, {base: int_or_none(count) for base, count in sizes.items()}, shards
            )
        else:
            detail = f"it is a {type(sizes).__name__}, not an object"
            folder.sizes_error = f"TypeError: {detail}"
            facts = [malformed_file(name, detail)]
    # ``wdsflow index`` writes both again, where there are both.
    files = [file for file in COUNTS if os.path.isfile(os.path.join(path, file))]
    return with_index_options(facts, path, files, *(_OPTIONS[file] for file in files))


def _read_length(
    path: str, folder: FolderCounts, shards: Sequence[ShardEvidence], *, alone: bool
) -> list[SidecarFact]:
    """Read __len__; ``alone``: all shards are in this folder, so that the number must be theirs."""
    name = os.path.join(path, _LEN)
    detail = ""
    try:
        text = read_text(name, _LARGEST_LEN)
        if text is None:
            return []
        # As OpenCLIP does; literals only, and short.
        value = ast.literal_eval(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        folder.length_error = _raised(error)
        detail = "it holds no number"
        if isinstance(error, (OSError, UnicodeDecodeError)):
            detail = file_error_text(error)
    else:
        if isinstance(value, (int, float)):
            folder.length = value
        else:
            detail = f"it holds a {type(value).__name__}, not a number"
            folder.length_error = f"TypeError: {detail}"
    facts = []
    if detail:
        facts.append(malformed_file(name, detail))
    elif alone and folder.sizes is None and not any(shard.error for shard in shards):
        samples = sum(shard.samples for shard in shards)
        if folder.length != samples:
            difference = f"says {folder.length:,}; there are {samples:,}"
            facts.append(SidecarFact(escape(name), "stale", difference))
    return with_index_options(facts, path, (_LEN,), _OPTIONS[_LEN])


def _read_stats(
    path: str, folder: FolderCounts, shards: Sequence[ShardEvidence]
) -> list[SidecarFact]:
    facts = []
    for shard in shards:
        base = os.path.basename(shard.url)
        name = os.path.join(path, base.partition(".")[0] + "_stats.json")
        try:
            stats = read_json(name, _LARGEST_STATS)
        except (OSError, ValueError, RecursionError) as error:
            facts.append(malformed_file(name, file_error_text(error)))
            continue
        if stats is None:
            folder.without_stats.append(base)
            continue
        successes = int_or_none(stats.get("successes")) if isinstance(stats, dict) else None
        if successes is not None:
            folder.stats[base] = successes
    if not folder.stats:
        folder.without_stats.clear()
    return facts + compare_counts(os.path.join(path, "*_stats.json"), folder.stats, shards)
