"""How many samples come out, with bounds on what was not tried."""

import math
from dataclasses import dataclass, field

from ..verdicts.verdict import Outcome
from .probe_child import ProbeRun, StageLoss

_DOUBT = 0.001  # how often a bound may be wrong


def bounds(hits: int, tried: int, untried: int) -> tuple[int, int]:
    """Return bounds on the hits among the untried, by Clopper and Pearson (1934), at 99.9 % on each side.

    >>> bounds(4, 4, 1), bounds(400, 400, 10_000), bounds(0, 400, 10_000), bounds(0, 0, 7)
    ((0, 1), (9828, 10000), (0, 172), (0, 7))
    """
    if not tried:
        return 0, untried
    least = 0.0 if hits == 0 else _solve(lambda share: _at_least(hits, tried, share))
    most = 1.0 if hits == tried else 1 - _solve(lambda share: _at_least(tried - hits, tried, share))
    return math.floor(least * untried), math.ceil(most * untried)


def _solve(chance: "object") -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if chance(middle) > _DOUBT:  # type: ignore[operator]
            high = middle
        else:
            low = middle
    return low


def _at_least(hits: int, tried: int, share: float) -> float:
    """Return the chance of at least that many hits."""
    if share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    total = 0.0
    for count in range(hits, tried + 1):
        log = math.lgamma(tried + 1) - math.lgamma(count + 1) - math.lgamma(tried - count + 1)
        total += math.exp(log + count * math.log(share) + (tried - count) * math.log1p(-share))
    return total


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
    came: int = 0  # samples that came out when the shards were read in order: no fewer will
    open: bool = False  # the run may end anywhere after those
    stopped: str = ""  # the stage that ended the run before its input ended, such as "stage 4 slice(100)"

    rest: list[tuple[str, int]] = field(default_factory=list)  # stages, and how many samples they leave out at the end
    perhaps_batches: bool = False  # each element that came out may be a batch of any number of samples
    picks: bool = False  # the function that makes the pipeline leaves shards out

    def shift(self, real: int, counted: tuple[int, int]) -> None:
        """Count samples as they were found to be, instead of as their shapes are: at least, at most so many."""
        self.least = max(0, self.least + real - counted[1])
        self.likely = max(0, self.likely + real - counted[1])
        self.most = max(0, self.most + real - counted[0])

    def open_below(self, why: str) -> None:
        """Any number is possible from that of the samples on which came out already."""
        self.least, self.open = self.came, True
        self.doubts.append(why)

    def outcome(self, samples: int, max_loss: float, *, repeats: bool) -> Outcome:
        """Return the outcome that both ends of the range have; "not known" if they differ, or if the run may end anywhere.

        Args:
            samples: in the shards.
            max_loss: share of them, 0 to 1, that may be lost before the outcome is "loses".
            repeats: the pipeline repeats its shards until something comes out.
        """
        if self.crash is not None:
            return "crashes"
        if self.hang is not None or (not self.most and repeats):
            return "stalls"
        loses = [not number or samples - number > max_loss * samples for number in (self.least, self.most)]
        unknown = loses[0] != loses[1] or (self.open and self.least < self.most) or (repeats and not self.least)
        return "not known" if unknown else "loses" if loses[0] else "trains"
