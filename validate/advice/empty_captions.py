"""Samples that have an image and a caption without text."""

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Shape
from wdsflow.scan.statuses import BLANK, EMPTY
from wdsflow.shards.shard_names import IMAGE_FIELDS

from ..rules.kit.shape_edits import CAPTION


def empty_captions(shard: ShardEvidence) -> int:
    """Return the number of samples with an image and a caption without text.

    Readers train these images on an empty text.
    """
    return sum(run.count for run in shard.runs.shape_counts() if _has_empty_caption(run.shape))


def _has_empty_caption(shape: Shape) -> bool:
    status = {part.suffix: part.status for part in shape}
    return status.get(CAPTION) in (EMPTY, BLANK) and not status.keys().isdisjoint(IMAGE_FIELDS)
