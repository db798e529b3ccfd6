"""The passes of all workers of a reader over shards, as one result."""

from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import is_junk_run

from .reader_pass import PassResult, run_pass


class AllPasses(NamedTuple):
    """The sum of all workers' passes."""

    result: PassResult
    # Some worker yields nothing: the loader waits for it, regardless of the others.
    hangs: bool


def pass_over_all(reader: Reader, shards: Sequence[ShardEvidence]) -> AllPasses:
    """Return the result of all workers' passes, up to the first exception."""
    result = PassResult()
    is_starved = False
    for worker_shards in reader.order(shards):
        of_worker = run_pass(reader, worker_shards)
        is_starved = is_starved or not of_worker.usable
        result.merge(of_worker)
        if result.crash is not None:
            break
    if result.crash is not None and reader.in_parallel:
        result = _without_order(result, shards, reader)
    return AllPasses(result, hangs=is_starved and reader.empty_stalls)


def uncounted_samples(reader: Reader, shards: Sequence[ShardEvidence]) -> int:
    """Return how many samples a reader forms that the scan, which counts keys, does not count.

    Whole samples whose key has occurred before in their shard, and those in files that belong to no
    sample, such as those of a folder __MACOSX.
    """
    count = 0
    bound = reader.bound_to(shards)
    for shard in shards:
        if not bound.opens(shard):
            continue
        for shape, times in shard.resumed_runs.items():
            count += times * any(fate.stage in ("decode", "batch") for fate in bound.fates(shape))
        for run in bound.runs(shard).shape_counts():
            if is_junk_run(run.key, run.shape):
                count += run.count * sum(fate.kind == "usable" for fate in bound.fates(run.shape))
    return count


def _without_order(
    ended: PassResult, shards: Sequence[ShardEvidence], reader: Reader
) -> PassResult:
    """Return a pass that an exception ends, with the samples of all fully readable shards."""
    result = PassResult(crash=ended.crash, crash_location=ended.crash_location)
    for worker_shards in reader.order(shards):
        for shard in worker_shards:
            of_shard = run_pass(reader, [shard])
            if of_shard.crash is None:
                result.merge(of_shard)
    return result
