"""What batches cost and how often they did not fit."""

from dataclasses import dataclass

from .plan import Padding


@dataclass
class BatchTally:
    """What a runner did so far."""

    items: int = 0
    batches: int = 0  # that worked
    out_of_memory: int = 0  # attempts that did not fit
    on_cpu: int = 0  # items that fitted nowhere else
    failed: int = 0  # items
    padded: int = 0  # cells of the batches that worked
    real: int = 0

    @property
    def padding(self) -> Padding:
        """The cells that were computed."""
        return Padding(self.padded, self.real)
