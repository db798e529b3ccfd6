"""A forecast of epochs in which each shard goes to one worker: every worker is followed."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.versions import EpochLength

from .forecast_result import Forecast, Starved
from .resources import estimate
from .worker_passes import (
    ShardPasses,
    WorkerPass,
    certainly_starves,
    epochs_to_check,
    worker_passes,
)


def with_dealt_shards(
    base: Forecast, shards: ShardPasses, arguments: Arguments, length: EpochLength
) -> Forecast:
    """Follow every worker through the first epochs, until one starves or crashes."""
    passes = list(worker_passes(shards, arguments, 0))
    poorest = min(passes, key=attrgetter("usable"))
    richest = max(passes, key=attrgetter("usable"))
    # Samples that each worker gives in an epoch.
    used = length.worker_batches * arguments.batch_size
    shares = tuple(worker.usable for worker in passes)
    raw = [worker.raw for worker in passes]
    expected = replace(
        base,
        exact=arguments.seed >= 0,
        usable=sum(shares),
        shares=shares,
        poorest=poorest,
        richest=richest,
        seen=(_uses_per_sample(used, poorest), _uses_per_sample(used, richest)),
        unseen=sum(max(0, share - used) for share in shares),
        resources=estimate(arguments, shards.reader, shards.shards, raw, sum(shares)),
    )
    for epoch in range(epochs_to_check(arguments.epochs, len(shards.shards))):
        if epoch > 0:
            passes = list(worker_passes(shards, arguments, epoch))
        expected = replace(expected, epochs_checked=epoch + 1)
        for worker in passes:
            if worker.crash:
                location = f"epoch {epoch}, rank {worker.rank}, worker {worker.worker}"
                return replace(expected, crash=f"{location}: {worker.crash}")
        starved = _starved(shards, arguments, passes)
        if starved:
            # torch takes a batch from each worker in turn, and no rank can get ahead of the others.
            batches = min(worker.worker for worker in starved)
            return replace(expected, stalled=starved, batches_before_stall=batches)
    return expected


def _uses_per_sample(used: int, worker: WorkerPass) -> float:
    """Return how often a worker uses each of its samples in an epoch.

    ``used``: the number of samples that it yields in the epoch.
    """
    return used / worker.usable if worker.usable else 0.0


def _starved(
    shards: ShardPasses, arguments: Arguments, passes: Sequence[WorkerPass]
) -> tuple[Starved, ...]:
    """Return the workers of an epoch that certainly never fill a batch."""
    starved = []
    for worker in passes:
        if worker.batches or not certainly_starves(shards, arguments, worker):
            continue
        starved.append(
            Starved(
                worker.epoch,
                worker.rank,
                worker.worker,
                worker.usable,
                worker.shards,
                arguments.batch_size,
                shards.reader.empty_stalls,
            )
        )
    return tuple(starved)
