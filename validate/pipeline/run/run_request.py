"""What the process of a run gets: the shards, the limits, and what is known about the samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .pass_limit import PassLimit


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run of the user's pipeline over some shards."""

    urls: tuple[str, ...]
    # For what its processes report.
    folder: str
    # The input ends after so many samples.
    samples: float = math.inf
    # The input ends after so many seconds.
    seconds: float = math.inf
    # Samples in the shards; None: they may be read again and again.
    shard_samples: int | None = None
    # Of the samples in the shards; empty if there are too many.
    keys: frozenset[str] = frozenset()
    # Name of a function -> the only line of the user that calls it.
    call_lines: Mapping[str, str] = field(default_factory=dict)
    pass_limit: PassLimit = field(default_factory=PassLimit)
