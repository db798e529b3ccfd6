"""What becomes of samples when they are put into batches."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice

from wdsflow.scan.evidence import ShardEvidence

from .fates import Estimate, ProbedShape, ProbeLimits, Prober
from .probe_process import ProbeRun, RunRequest
from .probe_samples import SamplePlace
from .reading import split
from .rewire import PipelineFacts


def leave_out_rest(
    found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence], *, collation_drops: bool
) -> None:
    """Leave out what is too little for a whole batch."""
    if found.crash is not None:  # a batch is lost if its samples are not complete by then
        _leave_out_begun(found, facts)
    if facts.resampled or found.crash is not None:
        return
    known = found.least == found.most
    mine = _of_each_worker(found, facts, shards) if known else []
    for size, keeps_rest, workers, name in facts.batches:
        if keeps_rest or size < 2:
            continue
        if collation_drops:  # after the incomplete batch was left out
            found.least = max(0, found.least - workers * (size - 1))
            found.doubts.append("a collate function leaves samples out")
            continue
        before = found.likely
        if workers > 1 and mine:
            mine = [samples // size * size for samples in mine]
            found.least = found.likely = found.most = sum(mine)
        else:
            found.least = max(0, found.least - (workers - 1) * (size - 1)) // size * size
            found.likely, found.most = found.likely // size * size, found.most // size * size
        if found.least != found.most and workers > 1:
            found.doubts.append("each worker leaves out its last, incomplete batch")
        elif known and before > found.likely:
            found.rest.append((name, before - found.likely))
        known = found.least == found.most


def _leave_out_begun(found: Estimate, facts: PipelineFacts) -> None:
    """Leave out the batches that were begun before an exception."""
    if found.least < found.most or any(workers > 1 for _, _, workers, _ in facts.batches):
        found.least = max(0, found.least - sum(size - 1 for size, _, _, _ in facts.batches))
        return
    for size, _, _, _ in facts.batches:
        found.least = found.likely = found.most = found.most // size * size


def _of_each_worker(found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence]) -> list[int]:
    """Return how many samples each worker gets, if all samples come out and each has its own shards; [] if unknown."""
    own = facts.source == "list" and "split_by_worker" in facts.splits and not facts.shuffled_before
    if not own or found.most != sum(shard.samples for shard in shards):
        return []
    return [sum(shard.samples for shard in each.shards) for each in split(facts, shards, 1)]


def failing_batch(
    prober: Prober,
    shards: Sequence[ShardEvidence],
    shapes: Sequence[ProbedShape],
    found: Estimate,
    facts: PipelineFacts,
    limits: ProbeLimits,
) -> ProbeRun | None:
    """Run with real batches: samples that come out alone may not fit together."""
    if not any(each.size > 1 for each in facts.batches) or not prober.good or not found.most:
        return None
    if found.whole:
        seconds = limits.whole_seconds or limits.seconds
        run = _raising(prober, [shard.url for shard in shards], seconds)
        if run is not None:
            _count_batches(run, found, facts)
        return run
    size = max(each.size for each in facts.batches)
    good = list({each.key: each for each in prober.good}.values())
    rare = [place for shape in shapes for place, fate in shape.rare.items() if fate.kind == "usable"]
    full = islice(cycle(good), max(size, len(good)))  # fewer than a batch come again: neighbours have other keys
    run = _raising(prober, _tars(prober, list(full)), limits.seconds) if len(good) > 1 else None
    ends = time.monotonic() + limits.rare_seconds
    for place in rare:
        others = [each for each in good if each.key != place.key]
        if run is not None or time.monotonic() > ends:
            break
        if len(others) < 2:
            continue
        run = _raising(prober, _tars(prober, [place, *islice(cycle(others), size - 1)]), limits.seconds)
        run = None if run is None else replace(run, key=place.key, shard=place.shard)
    if run is not None:
        found.open_below("how many batches come out before the end depends on the order")
    return run


def _raising(prober: Prober, urls: Sequence[str], seconds: float) -> ProbeRun | None:
    """Return the run with real batches if it ends with an exception."""
    run = prober.process.run(RunRequest(tuple(urls), singly=False, seconds=seconds, most=1 << 40))
    return run if run.how == "raised" and not run.machine else None


def _tars(prober: Prober, places: Sequence[SamplePlace]) -> list[str]:
    tars = {place: prober.tars.tar(place) for place in dict.fromkeys(places)}
    return [tar for place in places if (tar := tars[place]) is not None]


def _count_batches(run: ProbeRun, found: Estimate, facts: PipelineFacts) -> None:
    """Count the samples of the batches before an exception, if they come in a known order."""
    ordered = not (facts.shuffles or facts.chance or facts.resampled or facts.workers > 1)
    if ordered and found.least == found.most and run.rows == run.out * facts.batches[-1].size:
        found.least = found.likely = found.most = run.rows
        found.rest = []
    else:
        found.open_below("how many batches come out before the end depends on the order")
