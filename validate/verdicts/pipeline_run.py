"""What was observed of a run of the user's own pipeline."""

from dataclasses import dataclass
from typing import Literal

from wdsflow.text.words import how_many

from ..tracing.stage_trace import StageTrace

Ending = Literal["itself", "samples", "time", "passes", "exception", "death", "hang"]


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The counts of one run."""

    # The pipeline itself, a limit of the run, or a fault.
    ended_by: Ending
    # Samples that entered, each as often as it did; None: not visible.
    read: int | None
    # Samples that came out, or elements if it is not visible how many samples these hold.
    delivered: int
    # Samples that were read, or came out, again; None: not visible.
    repeated: int | None
    # That were opened; None: not visible.
    shards: int | None
    of_shards: int
    stages: tuple[StageTrace, ...]

    @property
    def whole(self) -> bool:
        """Whether the pipeline was read to its own end."""
        return self.ended_by == "itself"

    @property
    def scope(self) -> str:
        """What was read of the shards: "3 of 40 shards"."""
        all_shards = how_many(self.of_shards, "shard")
        if self.shards is None:
            return f"{all_shards}, as far as is visible"
        return f"{self.shards:,} of {all_shards}"
