"""The shards that each worker of each rank reads, by the pipeline's own source and splits, and workers that starve."""

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many, listed

from ..verdicts.verdict import Outcome
from .fates import Estimate, ProbedShape, Prober, bounds
from .probe_process import BUILDING, ProbeRun, RunRequest
from .probe_samples import SamplePlace
from .rewire import PipelineFacts

_MOST_WORKERS = 100_000


class WorkerShards(NamedTuple):
    """The shards of one worker."""

    rank: int
    worker: int
    shards: list[ShardEvidence]


class SplitResult(NamedTuple):
    """The result for ranks and workers."""

    note: str = ""  # for the end of the report
    starved: str = ""  # the workers that get nothing
    outcome: Outcome | None = None  # "crashes" or "stalls" if that ends the run


def judge_split(
    facts: PipelineFacts, shards: Sequence[ShardEvidence], shapes: Sequence[ProbedShape], world_size: int
) -> SplitResult:
    """Return the split of shards, in the order of the urls, over workers; ``world_size``: ranks that train."""
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
    return result._replace(note="; ".join(filter(None, [*notes, result.note])))


def leave_room(found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence], world_size: int) -> None:
    """Widen the range for shards that no worker takes: each shuffles all of them independently before the split."""
    workers = parts(facts, world_size)
    if workers > 1 and found.most:
        kept = -(-len(shards) // workers)  # if all workers draw the same
        found.least = max(0, found.least - sum(sorted(shard.samples for shard in shards)[kept:]))
        found.doubts.append("some shards are read more than once in an epoch, and others not at all")


def parts(facts: PipelineFacts, world_size: int) -> int:
    """Return the number of workers over which independently shuffled shards are split; 1 if none are."""
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
    # A shuffle before a split distributes the shards differently in each epoch: only their number is known.
    without = [each for each in all_workers if not each.shards]
    known = [] if facts.shuffled_before else [each for each in all_workers if each.shards]
    useless = [each for each in known if all(shard.runs.shapes() <= lost for shard in each.shards)]
    if not without and not useless:
        return SplitResult()
    parts = [
        f"{how_many(len(some), 'worker')} of {len(all_workers):,} {'gets' if len(some) == 1 else 'get'} {what}, such as"
        f" worker {some[0].worker} of rank {some[0].rank}"
        for some, what in ((without, "no shard"), (useless, "only shards without a usable sample"))
        if some
    ]
    text = " and ".join(parts)
    starved = Counter(each.rank for each in (*without, *useless))
    ranks = sum(count == max(1, facts.workers) for count in starved.values())
    if without and facts.checks_empty:
        return SplitResult("", f"{text}: webdataset raises ValueError there (No samples found in dataset)", "crashes")
    if facts.endless and not facts.breaks:
        return SplitResult("", f"{text}: it repeats its shards without end, and gives nothing", "stalls")
    if ranks and world_size > 1:
        return SplitResult(
            "",
            f"{text}: {how_many(ranks, 'rank')} of {world_size:,} would give no batch, and the others wait",
            "stalls",
        )
    return SplitResult(f"{text}: it gives nothing, and the loader takes from the others")


_FIRST = 64  # samples in order that show whether it yields batches
_WEEK = 7 * 86_400.0  # seconds: in effect no limit


class ReadingInOrder:
    """The runs over all shards."""

    def __init__(self, prober: Prober) -> None:
        self.prober, self.evidence, self.limits = prober, prober.evidence, prober.limits
        self.urls = tuple(shard.url for shard in prober.evidence.shards)
        self.run: ProbeRun | None = None  # the first one
        self.seconds = 0.0  # of the first run

    def estimate(self) -> Estimate | None:
        """Read the shards in order, once or twice; None if it takes too long, or does not end."""
        run, facts, shapes = self._first(), self.prober.facts, self.prober.shapes
        if run is None or run.machine or run.how not in ("ended", "raised", "hung"):
            return None
        again = run if facts.blind or run.how != "ended" else self._again(run)
        low, high = sorted((run.out, again.out))
        found = Estimate(low, run.out, high, whole=True, picks=run.picks_shards)
        if run.how == "hung":
            found.hang = run
        elif run.how == "raised" or again.how == "raised":
            found.crash = run if run.how == "raised" else again
        if run.how != "ended" or again.how == "raised":
            if run.stage != BUILDING and (facts.shuffles or facts.workers > 1 or low != high):
                found.most = sum(shape.group.count for shape in shapes if shape.usable)
                found.open_below("how many samples come out before the end depends on the order")
            return found
        held = self.prober.elements * self.evidence.samples
        counted = run.rows > 0 if self.prober.copies > 1 else any(shape.usable for shape in shapes)
        if facts.gathers and run.out and not counted and not self._gives_samples(run):
            found.most, found.perhaps_batches = max(held, run.out), True
            found.doubts.append("nothing comes out for one sample alone: perhaps it gives batches")
        elif low != high or facts.chance or again.how != run.how:
            facts.chance = True
            share = min(1.0, high / max(1, held))
            spread = 2 * (high - low) + math.ceil(4 * max(1.0, held * share * (1 - share)) ** 0.5)
            found.least, found.most = max(0, low - spread), min(held, high + spread)
            found.losses = run.losses
            found.doubts.append("two passes over the shards gave different numbers: samples are dropped by chance")
        else:
            found.losses, found.stopped = run.losses, run.stopped
        return found

    def _gives_samples(self, run: ProbeRun) -> bool:
        """Return whether the output is samples if none comes out alone: batches are at most half as many."""
        if 2 * run.out > self.evidence.samples:
            return True
        tars = self.prober.tars
        places = list(islice((place for url in self.urls for place in tars.places_in(url)), _FIRST))
        path = tars.tar(*places) if places else None
        return path is not None and 2 * self.prober.run([path]).out > len(places)

    def _first(self) -> ProbeRun | None:
        """Read the shards; None if they are not read, or if the result is inconclusive."""
        fates = [fate for shape in self.prober.shapes for fate in shape.fates.values()]
        odd = any(fate.kind == "hang" or fate.run.how == "endless" for fate in fates)
        if odd or self.prober.patience <= 0 or not self.limits.whole_seconds or self._remote():
            return None
        started = time.monotonic()
        run = self.read()
        self.seconds = time.monotonic() - started
        costs = sorted(self.prober.cost.values())
        typical = costs[len(costs) // 2] if costs else math.inf
        if run.how == "hung" and (run.stage == BUILDING or typical * self.evidence.samples >= self.seconds):
            return None  # it may read all of them before it yields the first
        run = self._named(run)
        if run.how != "endless":
            self.run = run
        return run

    def _named(self, run: ProbeRun) -> ProbeRun:
        """Return a run with the sample that ended it if unknown: the next one, if it does so alone."""
        facts, number = run.facts, run.out
        if run.how != "raised" or run.key or run.machine or facts is None or facts.shuffles or facts.workers > 1:
            return run
        for shard in self.evidence.shards:
            if number < shard.runs.count:
                places = self.prober.tars.places_in(shard.url)
                path = self.prober.tars.tar(places[number]) if number < len(places) else None
                alone = run if path is None else self.prober.run([path])
                if path is not None and (alone.how, alone.out, alone.error) == (run.how, 0, run.error):
                    return replace(run, key=places[number].key, shard=shard.url)
                break
            number -= shard.runs.count
        return run

    def _again(self, first: ProbeRun) -> ProbeRun:
        """Read the shards again, with other random numbers; not if it takes long and none were drawn."""
        draws = first.facts is None or first.facts.draws or first.facts.shuffles or first.facts.chance
        return self.read(seed=2) if draws or self.seconds < self.limits.whole_seconds else first

    def came(self) -> int:
        """Return a certain lower bound of samples, from reading in order."""
        return min(self.run.out, self.evidence.samples) if self.run is not None and self.prober.facts.ordered else 0

    def reaches(self, sample: SamplePlace) -> bool:
        """Return whether a pipeline that takes only some samples certainly reads this one."""
        facts = self.prober.facts
        if facts.limit is None or facts.shuffles or facts.resampled or facts.workers > 1:
            return False
        number = 0
        for shard in self.evidence.shards:
            if shard.url == sample.shard:
                places = self.prober.tars.places_in(shard.url)
                return number + places.index(sample) < facts.limit if sample in places else False
            number += shard.samples
        return False

    def doubt(self) -> str:
        """Return how the first samples in order differ from the probes; "" if they do not, or if unknown."""
        run, facts, shapes = self.run, self.prober.facts, self.prober.shapes
        if run is None:
            return ""
        if run.picks_shards:
            return "the function that makes it leaves shards out"
        if not run.taken or facts.opaque or facts.chance:
            return ""
        low, high = bounds(sum(each.usable for each in shapes), sum(len(each.fates) for each in shapes), run.taken)
        some = f"of the first {run.taken:,} samples in order {run.out:,} came out"
        return "" if low <= run.out <= high else f"{some}, unlike those of the probes"

    def read(self, seed: int = 1, change: tuple[int, str] | None = None) -> ProbeRun:
        """Read the shards, with other stages if requested; see ``RunRequest.change``."""
        limit = self.limits.whole_seconds
        seconds, patience = (_WEEK, limit) if self.evidence.level == "full" else (limit, math.inf)
        first, most = self.limits.first_run, 16 * self.evidence.samples + 100
        limits = RunRequest(self.urls, seconds=seconds, first_seconds=first, most=most, patience=patience)
        run = self.prober.process.run(replace(limits, seed=seed, change=change))
        makes_batches = self.prober.copies != 1 and run.rows
        return replace(run, out=run.rows) if makes_batches else run

    def _remote(self) -> bool:
        size = sum(shard.size or 0 for shard in self.evidence.shards)
        return size > self.limits.remote_bytes and any("://" in url or url.startswith("pipe:") for url in self.urls)
