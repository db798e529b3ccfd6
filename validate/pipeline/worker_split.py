"""Which shards each worker of each rank reads, by the pipeline's own source and splits; and which would starve."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.text.words import how_many, listed

from ..verdicts.verdict import Outcome
from .estimate import Estimate
from .fates import ProbedShape
from .rewire import PipelineFacts

_MOST_WORKERS = 100_000


class WorkerShards(NamedTuple):
    """The shards of one worker."""

    rank: int
    worker: int
    shards: list[ShardEvidence]


class SplitResult(NamedTuple):
    """What is known about ranks and workers."""

    note: str = ""  # for the end of the report
    starved: str = ""  # which workers get nothing
    outcome: Outcome | None = None  # "crashes" or "stalls" if that ends the run


def judge_split(
    facts: PipelineFacts, shards: Sequence[ShardEvidence], shapes: Sequence[ProbedShape], world_size: int
) -> SplitResult:
    """Return what each worker gets.

    Args:
        facts: of the pipeline.
        shards: in the order in which the urls name them.
        shapes: what became of the probes.
        world_size: ranks that train.
    """
    workers = max(1, facts.workers)
    if workers * world_size == 1:
        return SplitResult()
    who = listed([*[how_many(world_size, "rank")] * (world_size > 1), *[how_many(workers, "worker")] * (workers > 1)])
    if world_size > 1 and "single_node_only" in facts.splits:
        text = f"single_node_only raises ValueError on {world_size:,} ranks: use nodesplitter=wds.split_by_node"
        return SplitResult(starved=text, outcome="crashes")
    if parts(facts, world_size) > 1:
        return SplitResult(
            f"put the stages that split shards before wds.shuffle, or replace it by wds.detshuffle: now each worker ({who})"
            " shuffles all shards its own way, and then takes its part"
        )
    if facts.source == "resampled":
        return SplitResult(f"each worker draws from all shards ({who})")
    if facts.source != "list" or workers * world_size > _MOST_WORKERS:
        return SplitResult(f"how its shards are split over {who} is not known")
    notes = []
    if workers > 1 and "split_by_worker" not in facts.splits:
        notes.append(f"no stage splits the shards over {workers:,} workers: each sample comes out {workers:,} times")
    if world_size > 1 and "split_by_node" not in facts.splits:
        notes.append(f"no stage splits the shards over {world_size:,} ranks: each reads all of them")
    result = _starving(facts, list(split(facts, shards, world_size)), shapes, world_size)
    return result._replace(note="; ".join([*notes, result.note] if result.note else notes))


def leave_room(found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence], world_size: int) -> None:
    """Leave room for shards that no worker takes: each shuffles all of them its own way before it takes its part."""
    workers = parts(facts, world_size)
    if workers > 1 and found.most:
        kept = -(-len(shards) // workers)  # if all workers should draw the same
        found.least = max(0, found.least - sum(sorted(shard.samples for shard in shards)[kept:]))
        found.doubts.append("some shards are read more than once in an epoch, and others not at all")


def parts(facts: PipelineFacts, world_size: int) -> int:
    """Return among how many workers shards are split that each of them shuffled its own way; 1 if that is not so."""
    by_node = world_size if "split_by_node" in facts.shuffled_apart else 1
    return by_node * (max(1, facts.workers) if "split_by_worker" in facts.shuffled_apart else 1)


def split(facts: PipelineFacts, shards: Sequence[ShardEvidence], world_size: int) -> Iterator[WorkerShards]:
    """Yield the shards of each worker of each rank."""
    order = list(shards)
    if facts.seed is not None:
        random.Random(facts.seed).shuffle(order)
    workers = max(1, facts.workers)
    for rank in range(world_size):
        for worker in range(workers):
            mine = order
            for name in facts.splits:
                if name == "split_by_node":
                    mine = mine[rank::world_size]
                elif name == "split_by_worker":
                    mine = mine[worker::workers]
            yield WorkerShards(rank, worker, mine)


def _starving(
    facts: PipelineFacts, all_workers: Sequence[WorkerShards], shapes: Sequence[ProbedShape], world_size: int
) -> SplitResult:
    lost = {shape.group.shape for shape in shapes if shape.fates and not shape.usable}
    # A shuffle before a split deals the shards out again in each epoch: only their number is known.
    without = [each for each in all_workers if not each.shards]
    useless = [
        each
        for each in all_workers
        if each.shards and not facts.shuffled_before and all(_gives_none(s, lost) for s in each.shards)
    ]
    if not without and not useless:
        return SplitResult()
    parts = [
        f"{how_many(len(some), 'worker')} of {len(all_workers):,} {'gets' if len(some) == 1 else 'get'} {what}, such as"
        f" worker {some[0].worker} of rank {some[0].rank}"
        for some, what in ((without, "no shard"), (useless, "only shards without a usable sample"))
        if some
    ]
    text = " and ".join(parts)
    starved = {(each.rank, each.worker) for each in (*without, *useless)}
    ranks = {
        rank for rank in range(world_size) if all((w.rank, w.worker) in starved for w in all_workers if w.rank == rank)
    }
    if without and facts.checks_empty:
        return SplitResult("", f"{text}: webdataset raises ValueError there (No samples found in dataset)", "crashes")
    if facts.endless and not facts.breaks:
        return SplitResult("", f"{text}: it repeats its shards without end, and gives nothing", "stalls")
    if ranks and world_size > 1:
        return SplitResult(
            "",
            f"{text}: {how_many(len(ranks), 'rank')} of {world_size:,} would give no batch, and the others wait",
            "stalls",
        )
    return SplitResult(f"{text}: it gives nothing, and the loader takes from the others")


def _gives_none(shard: ShardEvidence, lost: set[Shape]) -> bool:
    return shard.runs.shapes() <= lost
