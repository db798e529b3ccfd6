"""After how many samples a pipeline is ended that reads the shards again and again."""

import math
from dataclasses import dataclass

from ...tracing.pipeline_stages import (
    bare_name,
    draws_shards,
    is_loader,
    is_pipeline,
    module_of,
    repeats_endlessly,
)

# Passes over the shards after which a pipeline is ended whose object says that it never ends.
_ENDLESS_PASSES = 3
# The same of one that may end: its own code may read several times.
_UNKNOWN_PASSES = 10


@dataclass(frozen=True, slots=True)
class PassLimit:
    """The number of samples after which a pipeline that has not ended is ended."""

    samples: float = math.inf
    # The same, as long as nothing has come out.
    until_output: float = math.inf
    # Its object says so.
    never_ends: bool = False

    @classmethod
    def of(cls, pipeline: object, samples: int) -> "PassLimit":
        """Return the limit for a pipeline.

        Args:
            pipeline: the object that is iterated.
            samples: in the shards.
        """
        never_ends = _never_ends(pipeline)
        passes = _ENDLESS_PASSES if never_ends else _most_passes(pipeline)
        if math.isinf(passes):
            # It ends after a number of elements, which may never come.
            return cls(until_output=_ENDLESS_PASSES * samples, never_ends=never_ends)
        return cls(samples=passes * samples, never_ends=never_ends)


def _never_ends(pipeline: object) -> bool:
    """Return whether a pipeline repeats or draws shards without end.

    A later stage that can end it makes this False.
    """
    pipeline = getattr(pipeline, "dataloader", pipeline)
    if is_loader(pipeline):
        return _never_ends(pipeline.dataset)
    if not is_pipeline(pipeline):
        return draws_shards(pipeline)
    if _has_epoch(pipeline):
        return False
    if repeats_endlessly(pipeline):
        return True
    source, *stages = pipeline.pipeline
    return _never_ends(source) and not any(map(_may_end, stages))


def _may_end(stage: object) -> bool:
    """Return whether a stage may end before its input.

    Examples are ``slice``, and stages of the user.
    """
    function = getattr(stage, "f", stage)
    return bare_name(stage) == "slice" or not module_of(function).startswith("webdataset.")


def _most_passes(pipeline: object) -> float:
    """Return how often a pipeline that may end can read the shards.

    Returns infinity if it ends after a number of elements.
    """
    pipeline = getattr(pipeline, "dataloader", pipeline)
    if is_loader(pipeline):
        return max(1, pipeline.num_workers) * _most_passes(pipeline.dataset)
    if not is_pipeline(pipeline):
        return _UNKNOWN_PASSES
    if _has_epoch(pipeline):
        return math.inf
    repetitions: float = 1
    if not repeats_endlessly(pipeline):
        repetitions = getattr(pipeline, "repetitions", 1)
    return repetitions * _most_passes(pipeline.pipeline[0])


def _has_epoch(pipeline: object) -> bool:
    """Return whether a pipeline ends after a number of elements, as ``with_epoch(1000)`` does."""
    return getattr(pipeline, "repetitions", 1) != 1 and getattr(pipeline, "nsamples", -1) > 0
