"""The evidence of shards after an edit of each sample, as if they were scanned again."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Run, Runs, Shape, ShapeCount

from .shape_edits import Edit


def shards_after_edit(
    shards: Sequence[ShardEvidence], edit: Edit, caption: str = ""
) -> list[ShardEvidence]:
    """Return the evidence of shards after an edit of each sample.

    ``caption`` is the name in json that holds captions.

    Empty shards are left out.
    """
    edited = [replace(shard, runs=_runs_after_edit(shard, edit, caption)) for shard in shards]
    return [shard for shard in edited if shard.runs.head is not None]


def _runs_after_edit(shard: ShardEvidence, edit: Edit, caption: str) -> Runs:
    """Return the runs after an edit. If several shapes became one, their order is unknown."""
    edited = _shapes_after_edit(shard, edit, caption)
    if not edited:
        return Runs()
    first, last = edited[0], edited[-1]
    head = _run_of(first)
    if sum(item.count for item in edited) == 1:
        return Runs(head)
    tail = _run_of(last)
    if shard.runs.tail is not None:
        # The next shard's first sample may continue it.
        tail = tail._replace(key=shard.runs.tail.key)
    inner: list[ShapeCount] = []
    for item in edited:
        # The first run and the last one are not among the inner ones.
        count = item.count
        if item is first:
            count -= 1
        if item is last:
            count -= 1
        if count:
            inner.append(replace(item, count=count))
    return Runs(head, tuple(inner), tail)


def _shapes_after_edit(shard: ShardEvidence, edit: Edit, caption: str) -> list[ShapeCount]:
    """Return the shapes after an edit, each with its number of samples.

    Samples that the edit leaves out are missing.
    """
    # Of each shape, the samples whose json holds a caption, and that no run had so far.
    remaining: dict[Shape, int] = {}
    if caption in shard.json_keys:
        remaining.update(shard.json_keys[caption].shapes)
    edited: list[ShapeCount] = []
    for item in shard.runs.shape_counts():
        with_caption = min(remaining.get(item.shape, 0), item.count)
        if with_caption:
            remaining[item.shape] -= with_caption
        for count, has_caption in (
            (with_caption, True),
            (item.count - with_caption, False),
        ):
            if not count:
                continue
            shape = edit(item.shape, has_caption)
            if shape is not None:
                edited.append(replace(item, shape=shape, count=count, before=()))
    return edited


def _run_of(item: ShapeCount) -> Run:
    return Run(item.key, item.offset, item.shape)
