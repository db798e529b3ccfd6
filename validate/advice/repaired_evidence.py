"""The evidence of a shard that a repair would write.

It is computed from the evidence of the scan; nothing is read.
"""

import os
from dataclasses import replace

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Runs
from wdsflow.shards.shard import Shard
from wdsflow.shards.tar.members import Stop

from ..rules.kit.edited_evidence import shards_after_edit
from ..rules.kit.shape_edits import ShapeEdits


def shard_after_edits(shard: ShardEvidence, edits: ShapeEdits) -> ShardEvidence:
    """Return the evidence of a shard after edits that need no more than its shapes."""
    if not _changes_any(shard, edits):
        # The order of the samples stays known.
        return shard
    shards = shards_after_edit([shard], edits, edits.caption)
    if not shards:
        # No sample is left.
        return replace(shard, runs=Runs())
    return shards[0]


def _changes_any(shard: ShardEvidence, edits: ShapeEdits) -> bool:
    """Return whether edits change a sample of a shard."""
    for shape in shard.runs.shapes():
        if edits(shape, has_caption=True) != shape:
            return True
        if edits(shape, has_caption=False) != shape:
            return True
    return False


def with_output_name(shard: ShardEvidence) -> ShardEvidence:
    """Return the evidence of a repaired shard under its new name; all are in one folder."""
    url = Shard.file(os.path.basename(shard.url))
    return replace(shard, url=url, error=None, compression=None, stop=Stop(), by_arrow=None)
