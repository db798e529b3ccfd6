"""How much of a set a pipeline is tried on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """How much is tried."""

    per_shape: int = 4
    shapes: int = 64  # the most frequent ones
    samples: int = 400  # probed in a set that is too large to be read whole
    seconds: float = 10.0  # of one run
    first_seconds: float = 60.0  # of the first probes of all shapes
    all_seconds: float = 45.0  # of all probes but the first ones of each shape
    whole_samples: int = 2_000  # a set of at most so many samples is read whole, once
    whole_bytes: int = 256 << 20
    whole_seconds: float = 60.0
    damaged: int = 16  # damaged shards whose ends are tried
