"""How far a run is, as values: what each slice has done, and what has to be run again."""

from dataclasses import asdict, dataclass
from typing import Literal

Phase = Literal["done", "running", "dead", "failed", "missing"]


@dataclass(frozen=True)
class SliceStatus:
    """A slice of a run, or all of it.

    Attributes:
        phase: done; running; dead, if it was killed; failed, if it ended before all was done;
            missing, if it never began.
        shards: outputs that it has to write; ``done`` of them are recorded.
        samples: of the inputs of these; ``kept`` of them are in the outputs, None if the record
            does not say.
        process: the one that works, or worked last. ``why``: the reason why it failed.
        command: the one that runs it again; "" if it is not known.
    """

    index: int
    phase: Phase
    shards: int
    done: int
    samples: int
    kept: int | None
    process: str
    why: str
    command: str


@dataclass(frozen=True)
class RunStatus:
    """The status of a run, by its slices.

    ``merged``: all is in one record. ``identity`` decides which lines are of this run.
    """

    run: str
    count: int
    slices: list[SliceStatus]
    merged: bool
    identity: str

    @property
    def is_done(self) -> bool:
        """Whether all outputs of all slices are done."""
        return all(part.phase == "done" for part in self.slices)

    @property
    def summary(self) -> str:
        """How much is done, in a line."""
        if not self.total("shards"):
            return f"{self.run}: no shard yet, it reads its inputs first"
        summary = f"{self.run}: {self.total('done'):,} of {self.total('shards'):,} shards done"
        if self.count == 1:
            return summary
        slices_done = sum(part.phase == "done" for part in self.slices)
        return f"{summary}, in {slices_done:,} of {self.count:,} slices"

    def total(self, name: str) -> int:
        """Sum a number over the slices."""
        return sum(getattr(part, name) or 0 for part in self.slices)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        sums = {name: self.total(name) for name in ("shards", "done", "samples")}
        return {**asdict(self), "complete": self.is_done and self.merged, **sums}
