"""Settings of a training command with which every worker gets batches."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import shard_urls
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import Evidence

from .named_shards import named_shards
from .worker_passes import ShardPasses, epochs_to_check, least_usable

# Numbers of workers that are tried.
_TRIES = 32
# Of the requested batch: a much smaller one trains another model.
_LEAST_BATCH = 0.5


def working_settings(
    evidence: Evidence, reader: Reader, arguments: Arguments, usable: int
) -> Iterator[tuple[str, ...]]:
    """Yield flags with which every worker gets batches in every epoch.

    The flags that change the training least come first.

    Fewer workers train the same model: the largest number that starves none. A much smaller batch
    would train another one: the largest that every worker can fill, if it is at least half of the
    requested one. Last, drawing from all shards; ``usable`` samples must fill a batch. A set that
    is smaller than a batch has one worker, and a batch of its size.
    """
    if arguments.dataset_resampled:
        return
    if isinstance(reader, OpenClip33) and arguments.seed >= 0:
        listed = named_shards(shard_urls(arguments), evidence)
        if listed.shards and not listed.unknown:
            passes = ShardPasses(reader, listed.shards)
            yield from _with_fewer_workers(passes, arguments)
            if 0 < usable < arguments.batch_size:
                yield from _with_smaller_batch(passes, arguments)
    if usable >= arguments.batch_size:
        yield ("--dataset-resampled",)


def _with_smaller_batch(shards: ShardPasses, arguments: Arguments) -> Iterator[tuple[str, ...]]:
    """Yield one worker for each rank, with the largest batch that it can fill."""
    if len(shards.shards) < arguments.world_size:
        return
    alone = replace(arguments, workers=1)
    least = least_usable(shards, alone, epochs_to_check(arguments.epochs, len(shards.shards)))
    if least:
        yield "--workers", "1", "--batch-size", str(least)


def _with_fewer_workers(shards: ShardPasses, arguments: Arguments) -> Iterator[tuple[str, ...]]:
    """Yield the largest number of workers that starves none.

    Also yields a batch size that all workers can fill.
    """
    count = len(shards.shards)
    ranks = arguments.world_size
    requested = arguments.batch_size
    epochs = epochs_to_check(arguments.epochs, count)
    most = min(arguments.workers - 1, count // ranks)
    for workers in range(most, max(0, most - _TRIES), -1):
        if least_usable(shards, replace(arguments, workers=workers), epochs) >= requested:
            yield "--workers", str(workers)
            break
    if count < arguments.workers * ranks:
        # Some worker has no shard.
        return
    least = least_usable(shards, arguments, epochs)
    if _LEAST_BATCH * requested <= least < requested:
        yield "--batch-size", str(least)
