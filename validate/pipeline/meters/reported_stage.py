"""The counts of one stage of the user's pipeline, and what follows from them."""

from dataclasses import dataclass, field

from ...tracing.stage_trace import RunningStage

# In place of the name of an exception: the stage gave None or an empty container for a sample.
BLANK = "None"
# In place of the name of an exception: the stage put the sample into the element of another.
COMBINED = "combined"
# In place of the name of an exception: the stage left the sample out, and raised none.
SILENT = ""


@dataclass(slots=True)
class LostSamples:
    """Samples that one stage left out for one reason, with the first of them."""

    # The text of the exception; BLANK, COMBINED or SILENT without one.
    error: str
    # "train.py:31".
    line: str
    key: str
    shard: str
    count: int = 0
    # A missing requirement of this machine, which caused the exception; "" if none.
    machine_fault: str = ""


@dataclass
class ReportedStage(RunningStage):
    """A stage of a run, with its counts."""

    # By the name of the exception, or BLANK, COMBINED or SILENT.
    losses: dict[str, LostSamples] = field(default_factory=dict)
    # Where the code of the user begins; "" if unknown.
    line: str = ""
    # Batches of which the number of samples is unknown.
    unclear: int = 0
    is_loader: bool = False
    # Elements with the key of a sample that it had yielded as often as it got it.
    repeated: int = 0
    # Elements with the key of a sample that it had got.
    with_input_key: int = 0
    # Its own code may give one sample twice and leave out another, see ``followed_stages``.
    is_opaque: bool = False
    # It calls a function of the user for each element.
    calls_function: bool = False

    @property
    def blanks(self) -> int:
        """Elements without a sample that it gave: None, or an empty container."""
        return self.losses[BLANK].count if BLANK in self.losses else 0

    @property
    def combined(self) -> int:
        """Samples that it put into the elements of others."""
        return self.losses[COMBINED].count if COMBINED in self.losses else 0

    @property
    def lost(self) -> int:
        """Samples that it got and did not yield, also if all batches are empty."""
        if self.kind == "batch" and self.input_kind == "sample" and self.batch and not self.unclear:
            return max(0, self.inputs - self.rows)
        if self.kind == self.input_kind == "sample":
            return max(0, self.inputs - (self.out - self.repeated))
        return super().lost

    @property
    def is_followed(self) -> bool:
        """Whether it is visible which of its input the stage yields.

        Keys show it, or the code of the stage is known.
        """
        if self.kind in ("", "shard", "member"):
            return True
        makes_batches = "batch" in (self.kind, self.input_kind) and self.calls_function
        if not self.is_opaque and not makes_batches:
            return True
        return self.kind == "sample" and self.with_input_key == self.out

    @property
    def multiplies(self) -> bool:
        """Whether it made several elements of one sample."""
        if self.kind != "sample" or self.input_kind != "sample":
            return False
        return self.out > self.inputs or self.repeated > 0

    def add_loss(self, name: str, loss: LostSamples) -> bool:
        """Count a sample that is lost; return whether it is the first one for this reason.

        Args:
            name: of the exception, or BLANK, COMBINED or SILENT.
            loss: kept if it is the first one.
        """
        first = self.losses.setdefault(name, loss)
        first.count += 1
        return first is loss

    def add_counts(self, other: "ReportedStage") -> None:
        """Add the counts of the same stage in another process."""
        self.out += other.out
        self.rows += other.rows
        self.seconds += other.seconds
        self.errors += other.errors
        self.logged += other.logged
        self.unclear += other.unclear
        self.repeated += other.repeated
        self.with_input_key += other.with_input_key
        self.kind = self.kind or other.kind
        self.first_log = self.first_log or other.first_log
        self.ended_stream |= other.ended_stream
        self.ended &= other.ended
        for name, loss in other.losses.items():
            if name in self.losses:
                self.losses[name].count += loss.count
            else:
                self.losses[name] = loss
        for name, count in other.fields.items():
            self.fields[name] = self.fields.get(name, 0) + count
