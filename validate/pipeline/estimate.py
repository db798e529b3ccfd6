"""How many samples come out."""

from dataclasses import dataclass, field

from .probe_child import ProbeRun, StageLoss


@dataclass(slots=True)
class Estimate:
    """How many samples come out."""

    least: int = 0
    likely: int = 0
    most: int = 0
    crash: ProbeRun | None = None
    hang: ProbeRun | None = None
    doubts: list[str] = field(default_factory=list)  # why it is a range
    whole: bool = False  # the shards themselves were read
    losses: tuple[StageLoss, ...] = ()  # of each stage, where shards were read to their end and give the same again

    def shift(self, real: int, counted: tuple[int, int]) -> None:
        """Count samples as they were found to be, instead of as their shapes are: at least, at most so many."""
        self.least = max(0, self.least + real - counted[1])
        self.likely = max(0, self.likely + real - counted[1])
        self.most = max(0, self.most + real - counted[0])

    def open_below(self, why: str) -> None:
        """Any number from 0 on is possible."""
        self.least = 0
        self.doubts.append(why)
