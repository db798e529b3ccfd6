"""Scores that take a known time for each caption, for tests of what a run says of its time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from wdsflow.stages.scores import BatchScore
from wdsflow.stages.scores.base import TextScore


@dataclass(frozen=True, kw_only=True)
class SlowText(TextScore):
    """Characters of a caption, without a model."""

    name: ClassVar[str] = "slow_text"

    seconds: float = 0.1

    def of(self, text: str) -> int:
        """Wait, and count."""
        time.sleep(self.seconds)
        return len(text)


@dataclass(frozen=True, kw_only=True)
class SlowBatch(BatchScore):
    """Characters of a caption, by a model."""

    name: ClassVar[str] = "slow_batch"
    inputs: ClassVar[Any] = "caption"

    seconds: float = 0.1

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Wait for each, and count."""
        time.sleep(self.seconds * len(batch))
        return [len(text) for text in batch]
