"""Faults of indexes next to shards, of timm and Energon.

Only the end of an index of a single shard is read, and one header of the shard: as few bytes for a
large shard as for a small one.
"""

import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import SourceError, local_path, open_file
from wdsflow.shards.tar.tar_header import BLOCK, is_header
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .sidecar_facts import (
    SidecarFact,
    compare_counts,
    file_error_text,
    first_names,
    int_or_none,
    malformed_file,
    nonexistent_shards,
    read_json,
    stale_file,
    unlisted_shards,
    with_index_options,
)

# Bytes of an index of all shards; LAION-5B's would have 10 MB.
_LARGEST = 64 << 20
_OFFSET = struct.Struct("<Q")
_TIMM = "_info.json"
_NV_INFO = os.path.join(".nv-meta", ".info.json")
# Ending of Energon's index of a shard.
_TAR_INDEX = ".tar.idx"
# Ending of img2dataset's counts of a shard.
_STATS = "_stats.json"
# Bytes of them that are read.
_STATS_START = 64 << 10
# Files of a kind without a shard that are looked at.
_MOST_ORPHANS = 1000


def index_facts(path: str, shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    """Compare the indexes in a folder with its shards.

    Args:
        path: the folder.
        shards: evidence of the shards of that folder.
    """
    timm = _compare_counts(os.path.join(path, _TIMM), shards, _timm_counts)
    energon = _compare_counts(os.path.join(path, _NV_INFO), shards, _energon_counts)
    try:
        names = set(os.listdir(path))
    except OSError:
        # Nothing can be said about its files.
        names = set()
    return [
        *with_index_options(timm, path, [_TIMM], "timm"),
        *with_index_options(energon, path, [_NV_INFO], "energon"),
        *_tar_indexes(path, names, shards),
        *_orphans(path, names),
    ]


def _timm_counts(tree: Any) -> dict[str, Any]:
    counts = {}
    for split in tree["splits"].values():
        for name, count in zip(split["filenames"], split["shard_lengths"], strict=True):
            counts[str(name)] = count
    return counts


def _energon_counts(tree: Any) -> dict[str, Any]:
    return dict(tree["shard_counts"])


def _compare_counts(
    name: str, shards: Sequence[ShardEvidence], counts_in: Callable[[Any], Mapping[str, Any]]
) -> Iterator[SidecarFact]:
    """Compare a file with a count for each shard."""
    try:
        tree = read_json(name, _LARGEST)
        if tree is None:
            return
        listed = counts_in(tree)
        counts = {
            os.path.basename(str(shard)): int_or_none(count) for shard, count in listed.items()
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        yield malformed_file(name, file_error_text(error))
        return
    yield from unlisted_shards(name, counts, shards)
    yield from nonexistent_shards(name, map(str, listed))
    yield from compare_counts(name, counts, shards)


def _tar_indexes(
    path: str, names: Collection[str], shards: Sequence[ShardEvidence]
) -> list[SidecarFact]:
    """Return a fact about Energon's indexes of single shards that do not agree with these."""
    wrong: list[str] = []
    files: list[str] = []
    for shard in shards:
        if shard.error or shard.compression is not None:
            continue
        name = os.path.splitext(os.path.basename(shard.url))[0] + _TAR_INDEX
        index = os.path.join(path, name)
        if name not in names or not os.path.isfile(index):
            continue
        try:
            detail = _compare_tar_index(index, shard)
        except (OSError, ValueError, struct.error):
            detail = "cannot be read"
        if detail:
            wrong.append(f"{escape(name)}: {detail}")
            files.append(name)
    return with_index_options(
        stale_file(os.path.join(path, f"*{_TAR_INDEX}"), wrong), path, files, "energon"
    )


def _compare_tar_index(path: str, shard: ShardEvidence) -> str:
    """Compare an Energon tar index with a shard; return the difference, "" if none.

    Compares the number of samples and the offset of the last one. A key that comes again counts as
    another sample.
    """
    size = os.path.getsize(path)
    if size % _OFFSET.size or not size:
        return "cannot be read"
    # The last offset is that of the end.
    samples = size // _OFFSET.size - 1
    if samples < shard.samples:
        return f"{how_many(samples, 'sample')} instead of {shard.samples:,}"
    if not samples:
        return ""
    with open(path, "rb") as stream:
        stream.seek(-2 * _OFFSET.size, os.SEEK_END)
        (last,), (end,) = _OFFSET.iter_unpack(stream.read())
    if shard.size is not None and end > shard.size:
        return f"ends at byte {end:,}, and the shard at {shard.size:,}"
    if not _has_header(shard, last):
        return f"names byte {last:,}, where the shard has no member"
    return ""


def _has_header(shard: ShardEvidence, offset: int) -> bool:
    """Return whether a shard has a header at an offset; also if that is unknown."""
    path = local_path(shard.url)
    if path is None:
        return True
    if shard.size is not None and offset >= shard.size:
        return False
    try:
        file = open_file(path)
    except SourceError:
        return True
    try:
        block = os.pread(file, BLOCK, offset)
    finally:
        os.close(file)
    return len(block) == BLOCK and is_header(block, old=True)


def _orphans(path: str, names: Collection[str]) -> list[SidecarFact]:
    """Return a fact about files of single shards that no longer exist.

    These are Energon's indexes and img2dataset's stats.
    """
    shards = [name for name in names if name.lower().endswith(SUFFIXES)]
    stems = {os.path.splitext(name)[0] for name in shards}
    # img2dataset names its counts up to the first dot.
    firsts = {name.partition(".")[0] for name in shards}
    indexes = _without_shard(path, names, _TAR_INDEX, stems, _may_be_tar_index)
    stats = _without_shard(path, names, _STATS, firsts, _is_stats)
    files = [*indexes, *stats]
    if not files:
        return []
    fact = SidecarFact(escape(path), "orphaned", first_names(files), max(len(indexes), len(stats)))
    return with_index_options([fact], path, files, *(["energon"] if indexes else []))


def _without_shard(
    path: str,
    names: Collection[str],
    ending: str,
    stems: Collection[str],
    is_one: Callable[[str], bool],
) -> list[str]:
    """Return the first files with an ending whose stem is that of no shard."""
    orphans: list[str] = []
    for name in sorted(name for name in names if name.endswith(ending)):
        stem = name.removesuffix(ending)
        file = os.path.join(path, name)
        if stem and stem not in stems and os.path.isfile(file) and is_one(file):
            orphans.append(name)
        if len(orphans) == _MOST_ORPHANS:
            break
    return orphans


def _may_be_tar_index(path: str) -> bool:
    try:
        return os.path.getsize(path) % _OFFSET.size == 0
    except OSError:
        return False


def _is_stats(path: str) -> bool:
    """Return whether img2dataset wrote a file: other programs use its ending, too."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(_STATS_START)
    except OSError:
        return False
    return b'"successes"' in head and b'"failed_to_download"' in head
