"""What becomes of samples when they are put into batches."""

from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence

from .estimate import Estimate
from .fates import Prober
from .probe_child import ProbeRun, RunRequest
from .rewire import PipelineFacts


def leave_out_rest(found: Estimate, facts: PipelineFacts, *, collation_drops: bool) -> None:
    """Leave out what is too little for a whole batch."""
    if found.crash is not None:  # a batch is lost if its samples are not complete by then
        found.least = max(0, found.least - sum(size - 1 for size, _, _ in facts.batches))
    if facts.resampled or found.crash is not None:
        return
    for size, keeps_rest, workers in facts.batches:
        if keeps_rest or size < 2:
            continue
        if collation_drops:  # after the incomplete batch was left out
            found.least = max(0, found.least - workers * (size - 1))
            found.doubts.append("a collate function leaves samples out")
            continue
        found.least = (
            found.least // size if workers == 1 else max(0, found.least - workers * (size - 1)) // size
        ) * size
        found.likely, found.most = found.likely // size * size, found.most // size * size
        if found.least != found.most and workers > 1:
            found.doubts.append("each worker leaves out its last, incomplete batch")


def failing_batch(
    prober: Prober, shards: Sequence[ShardEvidence], found: Estimate, facts: PipelineFacts, seconds: float
) -> ProbeRun | None:
    """Run with real batches: samples that come out alone may not fit together."""
    if not any(size > 1 for size, _, _ in facts.batches) or not prober.good or not found.most:
        return None
    if found.whole:
        urls = tuple(shard.url for shard in shards)
    else:
        tars = [prober.tars.tar(place) for place in {each.key: each for each in prober.good}.values()]
        urls = tuple(tar for tar in tars if tar is not None)
        sizes = [size for size, _, _ in facts.batches]
        if len(urls) < max(sizes):
            return None
    run = prober.process.run(RunRequest(urls, singly=False, seconds=seconds, most=1 << 40))
    if run.how != "raised" or run.machine:
        return None
    found.open_below("how many batches come out before the end depends on the order")
    return run
