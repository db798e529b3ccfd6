"""Settings of a training command with which every worker gets batches, found by trying them."""

from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import shard_urls
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import Evidence

from ..forecast.resources import Shards, epochs_to_check, least_usable, named_shards

_TRIES = 32
_LEAST_BATCH = 0.5  # of the batch that was asked for: a much smaller one trains another model


def working_workers(evidence: Evidence, reader: Reader, arguments: Arguments) -> int | None:
    """Return the largest number of workers per rank, below the present one, that starves none, or None."""
    shards = _shards(evidence, reader, arguments)
    if shards is None:
        return None
    most = min(arguments.workers - 1, len(shards.shards) // arguments.world_size)
    for workers in range(most, max(0, most - _TRIES), -1):
        trial = replace(arguments, workers=workers)
        if least_usable(shards, trial, _epochs(shards, trial)) >= arguments.batch_size:
            return workers
    return None


def working_batch_size(evidence: Evidence, reader: Reader, arguments: Arguments) -> int | None:
    """Return the largest batch that every worker can fill in every epoch; None if it is less than half of that asked for."""
    shards = _shards(evidence, reader, arguments)
    if shards is None or len(shards.shards) < arguments.workers * arguments.world_size:
        return None
    least = least_usable(shards, arguments, _epochs(shards, arguments))
    return min(least, arguments.batch_size) if least >= _LEAST_BATCH * arguments.batch_size else None


def _shards(evidence: Evidence, reader: Reader, arguments: Arguments) -> Shards | None:
    if not isinstance(reader, OpenClip33) or arguments.dataset_resampled or arguments.seed < 0:
        return None
    named = named_shards(shard_urls(arguments), evidence)
    return Shards(reader, named.shards) if named.shards and not named.unknown else None


def _epochs(shards: Shards, arguments: Arguments) -> int:
    return epochs_to_check(arguments.epochs, len(shards.shards))
