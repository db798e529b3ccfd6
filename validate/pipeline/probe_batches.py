"""The fates of samples together: in batches, and as rows of the columns of datasets and Ray Data."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice

from wdsflow.readers import READERS, scan_options
from wdsflow.readers.base import Options
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.scan_pool import scan_shards

from ..verdicts.verdict import Reason, judge
from .fates import Estimate, Prober
from .probe_process import ProbeRun, RunRequest
from .probe_samples import SamplePlace
from .reading import split
from .rewire import PipelineFacts

_BEFORE_END = "how many batches come out before the end depends on the order"
_FIRST_ROWS = 5  # samples from which datasets infers its columns


def leave_out_rest(
    found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence], *, collation_drops: bool
) -> None:
    """Subtract the samples of incomplete batches."""
    if found.crash is not None:  # a batch is lost if it is incomplete by then
        if found.least < found.most or any(batch.workers > 1 for batch in facts.batches):
            found.least = max(0, found.least - sum(batch.size - 1 for batch in facts.batches))
        else:
            for batch in facts.batches:
                found.least = found.likely = found.most = found.most // batch.size * batch.size
    if facts.resampled or found.crash is not None:
        return
    known = found.least == found.most
    mine = _of_each_worker(found, facts, shards) if known else []
    for size, keeps_rest, workers, name in facts.batches:
        if keeps_rest or size < 2:
            continue
        if collation_drops:  # after the incomplete batch was dropped
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


def _of_each_worker(found: Estimate, facts: PipelineFacts, shards: Sequence[ShardEvidence]) -> list[int]:
    """Return how many samples each worker gets, if all samples come out and each has its own shards; [] if unknown."""
    own = facts.source == "list" and "split_by_worker" in facts.splits and not facts.shuffled_before
    if not own or found.most != sum(shard.samples for shard in shards):
        return []
    return [sum(shard.samples for shard in each.shards) for each in split(facts, shards, 1)]


def failing_batch(prober: Prober, shards: Sequence[ShardEvidence], found: Estimate) -> ProbeRun | None:
    """Run with real batches: samples that come out alone may not fit together."""
    facts, limits = prober.facts, prober.limits
    if not any(each.size > 1 for each in facts.batches) or not prober.good or not found.most:
        return None
    if found.whole:
        run = _raising(prober, [shard.url for shard in shards], limits.whole_seconds or limits.seconds)
        if run is None:
            return None
        if facts.ordered and found.least == found.most and run.rows == run.out * facts.batches[-1].size:
            found.least = found.likely = found.most = run.rows
            found.rest = []
        else:
            found.open_below(_BEFORE_END)
        return run
    size = max(each.size for each in facts.batches)
    good = list({each.key: each for each in prober.good}.values())
    rare = [place for shape in prober.shapes for place, fate in shape.rare.items() if fate.kind == "usable"]
    full = islice(cycle(good), max(size, len(good)))  # repeats fewer than a batch; neighbours differ in keys
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
        found.open_below(_BEFORE_END)
    return run


def _raising(prober: Prober, urls: Sequence[str], seconds: float) -> ProbeRun | None:
    """Return the run with real batches if it raises an exception."""
    run = prober.process.run(
        RunRequest(tuple(urls), singly=False, seconds=seconds, first_seconds=prober.limits.first_run, most=1 << 40)
    )
    return run if run.how == "raised" and not run.machine else None


def _tars(prober: Prober, places: Sequence[SamplePlace]) -> list[str]:
    tars = {place: prober.tars.tar(place) for place in dict.fromkeys(places)}
    return [tar for place in places if (tar := tars[place]) is not None]


def leave_open(prober: Prober, found: Estimate) -> None:
    """Widen the range for samples that a reader with columns may refuse, and probe one that it surely refuses."""
    name, evidence = prober.facts.columns_by, prober.evidence
    found.open_below("it makes columns from the first samples, and may refuse others")
    reader, urls = READERS[name](Options()), [shard.url for shard in evidence.shards]
    own = scan_options(evidence.level, [reader], urls, allow_pipe=prober.options.allow_pipe)
    verdict = judge(Evidence(evidence.level, scan_shards(urls, own)), reader)
    if verdict.outcome == "crashes" and verdict.reasons:
        run = _tried_row(prober, urls[0], verdict.reasons[0])
        found.crash = found.crash or run
        found.doubts.append(f"--for {name} ends with an exception: {verdict.reasons[0].message}")


def _tried_row(prober: Prober, first: str, reason: Reason) -> ProbeRun | None:
    """Return the run if it raises an exception at a sample after the first ones of a set, otherwise None."""
    if reason.shard is None or reason.offset is None:
        return None
    refused = prober.tars.place_of(reason.shard, reason.offset)
    if refused is None:
        return None
    path = prober.tars.tar(*dict.fromkeys([*prober.tars.places_in(first)[:_FIRST_ROWS], refused]))
    run = None if path is None or prober.patience <= 0 else prober.run([path])
    return run if run is not None and run.how == "raised" else None
