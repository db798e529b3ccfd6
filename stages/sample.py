"""Keep a share of the samples."""

from dataclasses import dataclass
from typing import ClassVar

from .base import Dropped, SampleStage, StageError
from .base import Sample as SampleDict
from .shuffle import uniform


@dataclass(frozen=True)
class Sample(SampleStage):
    """Keep a share ``rate`` of the samples, chosen by their keys.

    A sample's fate depends on its key and on ``seed`` alone: not on its shard, on the order or on the worker. What is
    kept at a lower rate is also kept at a higher one. Samples of the same key are kept or dropped together.

    >>> stage = Sample(0.25, seed=1)
    >>> sum(1 for _ in stage({"__key__": f"{number:06}"} for number in range(1000)))
    243
    """

    name: ClassVar[str] = "sample"

    rate: float
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate <= 1:
            raise ValueError(f"rate={self.rate}: the share of samples to keep must be between 0 and 1")

    def apply(self, sample: SampleDict) -> SampleDict:
        """Let a sample go by its key."""
        key = sample.get("__key__")
        if not isinstance(key, str):
            raise StageError("no-key", "it has no key to decide by")
        if uniform(self.seed, key) >= self.rate:
            raise Dropped("not-sampled")
        return sample
