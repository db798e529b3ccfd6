"""How many samples the steps of an epoch have, for all ranks together."""

from dataclasses import dataclass
from typing import Literal

Last = Literal["exact", "even", "drop"]


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Divides the samples of an epoch into steps of ``batch_size`` samples for each rank.

    The last two steps share what is left for them. ``last``: "exact" gives all samples, so that
    batches of the last step may differ by one sample between ranks; "even" leaves out the
    remainder, less than one per rank, because losses that gather all ranks need equal batches;
    "drop" leaves out the last incomplete batches.

    ``length``: samples of the epoch.
    """

    length: int
    ranks: int
    batch_size: int
    last: Last

    @property
    def full(self) -> int:
        """Samples of a step in which each rank gets a whole batch."""
        return self.ranks * self.batch_size

    @property
    def num_samples(self) -> int:
        """The samples of all steps."""
        whole_number_of = {"exact": 1, "even": self.ranks, "drop": self.full}[self.last]
        return self.length // whole_number_of * whole_number_of

    def next_size(self, start: int) -> int:
        """Return the number of samples in the step after ``start`` samples.

        0 at the end of the epoch.
        """
        remaining = self.remaining(start)
        full = self.full
        if remaining > 2 * full or self.last == "drop":
            return full if remaining >= full else 0
        if remaining <= full:
            return remaining
        # The last two steps: half of the rest each, but no rank without a sample.
        half = max(self.ranks, -(-remaining // 2))
        if self.last == "even":
            return -(-half // self.ranks) * self.ranks
        return half

    def remaining(self, start: int) -> int:
        """Return the samples that the steps after the first ``start`` samples may give."""
        remaining = self.length - start
        if self.last == "even":
            return remaining // self.ranks * self.ranks
        return remaining
