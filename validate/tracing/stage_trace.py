"""The counts of one stage: its inputs, outputs, swallowed errors and time."""

from dataclasses import dataclass, field
from typing import Literal

from wdsflow.text.shell import escape

# What an item is, as far as its form shows it.
Kind = Literal["", "shard", "member", "sample", "batch"]


@dataclass
class StageTrace:
    """Input and output of one stage."""

    # From 1.
    number: int
    title: str
    # Input items; 0 for the source.
    inputs: int = 0
    # Output items.
    out: int = 0
    # Of its output items: "shard", "member", "sample", "batch".
    kind: Kind = ""
    # Of its input items.
    input_kind: Kind = ""
    # Samples inside its batches.
    rows: int = 0
    # Samples that one of its batches needs, if known; -1 if it takes batches apart.
    batch: int = 0
    # In its own code.
    seconds: float = 0.0
    # Swallowed by its handler.
    errors: int = 0
    # The same, by the name of the exception.
    error_types: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    error_key: str = ""
    error_shard: str = ""
    # A handler returned False: the stage stopped before its input ended.
    ended_stream: bool = False
    # Logged warnings: they suggest errors swallowed without a handler.
    logged: int = 0
    first_log: str = ""
    # Of its input samples, most frequent first.
    fields: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``stage 6 select(...)``."""
        return f"stage {self.number} {self.title}"

    @property
    def lost(self) -> int:
        """Samples (or batches) that were consumed and not yielded, 0 if unknown."""
        if self.kind == "batch" and self.input_kind == "sample":
            # The numbers can be compared only if it is known how many samples its batches hold.
            if not self.batch or not self.rows:
                return 0
            return max(0, self.inputs - self.rows)
        if self.input_kind not in ("sample", "batch") or self.kind not in ("", self.input_kind):
            return 0
        return max(0, self.inputs - self.out)


class RunningStage(StageTrace):
    """A stage that runs.

    ``fields`` are those of its output; its input is the output of the stage before it.
    """

    # Its output has ended.
    ended = False
    # Of its last output.
    key = ""
    shard = ""

    def log(self, message: str) -> None:
        """Count a warning."""
        self.logged += 1
        self.first_log = self.first_log or escape(message, 200)
