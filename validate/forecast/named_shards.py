"""The shards that a training command names, with what the scan has found in them."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop


class NamedShards(NamedTuple):
    """The shards of a training command, as OpenCLIP lists them."""

    shards: list[ShardEvidence]
    # Set if they differ from the scanned ones.
    note: str = ""
    # Indices of shards that may exist but were not scanned.
    unknown: frozenset[int] = frozenset()


def named_shards(
    urls: Sequence[str] | None, evidence: Evidence, *, literally: bool = False
) -> NamedShards:
    """Return the shards that a training command names; those that were not scanned count as empty.

    If none of them was scanned, they may be on another machine, and the given shards stand in for
    them; not so ``literally``, where OpenCLIP takes a pattern for a name.
    """
    if urls is None:
        return NamedShards(list(evidence.shards))
    scanned = {_plain(shard.url): shard for shard in evidence.shards}
    shards: list[ShardEvidence] = []
    unknown: set[int] = set()
    is_scanned = False
    for index, url in enumerate(map(single_shard, urls)):
        shard = scanned.get(_plain(url))
        if shard is None:
            # OpenCLIP may find it; for servers and commands this is not known.
            if url.path is None or os.path.isfile(url.path):
                unknown.add(index)
            shard = unreadable_shard(url)
        else:
            is_scanned = True
        shards.append(shard)
    if not is_scanned and not literally:
        note = "none of the shards of --train-data was scanned: the given shards were used instead"
        return NamedShards(list(evidence.shards), note)
    note = ""
    if unknown:
        unscanned = f"{len(unknown):,} shard{'s' if len(unknown) > 1 else ''} of --train-data"
        note = f"{unscanned} not scanned: their samples are not counted"
    return NamedShards(shards, note, frozenset(unknown))


def unreadable_shard(url: Shard) -> ShardEvidence:
    """Return the evidence of a shard that a reader cannot open."""
    return ShardEvidence(url, error="missing", stop=Stop("unreadable"))


def _plain(url: Shard) -> Shard:
    return url if url.path is None else Shard.file(os.path.normpath(url.path))
