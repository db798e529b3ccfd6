"""The report of a trace: one sentence on which stage loses samples, and the table of all stages."""

from dataclasses import dataclass, field
from typing import Literal

from .meter import Kind

Ending = Literal["pass", "samples", "time", "blocked", "raised", "asks-ended-source"]


@dataclass(frozen=True, slots=True)
class StageTrace:
    """Input and output of one stage."""

    number: int  # from 1
    title: str
    taken: int  # input items; 0 for the source
    out: int  # output items
    kind: Kind  # of its output items: "shard", "member", "sample", "batch"
    taken_kind: Kind
    rows: int  # samples inside its batches
    batch: int  # samples that one of its batches needs, if known
    seconds: float  # in its own code
    errors: int  # swallowed by its handler
    error_types: dict[str, int]  # the same, by the name of the exception
    first_error: str
    error_line: str  # "train.py:31": of the user's code, if it passed through any
    error_key: str
    error_shard: str
    ended_stream: bool  # its handler ended the stream
    logged: int  # warnings that it logged: they suggest errors swallowed without a handler
    first_log: str
    fields: dict[str, int]  # of its input samples, most frequent first

    @property
    def lost(self) -> int:
        """Samples (or batches) that went in and did not come out, 0 if unknown."""
        if self.kind == "batch" and self.taken_kind == "sample":
            return max(0, self.taken - self.rows) if self.batch and self.rows else 0
        comparable = self.taken_kind in ("sample", "batch") and self.kind in ("", self.taken_kind)
        return max(0, self.taken - self.out) if comparable else 0


@dataclass(frozen=True, slots=True)
class Trace:
    """How samples went through a pipeline, stage by stage. ``str()`` of it is a table with the verdict on top."""

    verdict: str
    ending: Ending  # why the run ended: one full pass, enough samples, time, ...
    stages: tuple[StageTrace, ...]
    seconds: float
    ok: bool  # it gave output, and no stage raised, blocked or dropped everything
    notes: tuple[str, ...] = field(default=())

    @property
    def samples(self) -> int:
        """Output samples of the first stage with samples."""
        return next((stage.out for stage in self.stages if stage.kind == "sample"), 0)

    @property
    def delivered(self) -> int:
        """Items (samples or batches) that left the last stage."""
        return self.stages[-1].out

    def __str__(self) -> str:
        wide = max(len(stage.title) for stage in self.stages)
        lines = [self.verdict, *self.notes, ""]
        lines.append(f"  #  {'stage':<{wide}}  {'in':>9}  {'out':>9}  {'':<7}  {'seconds':>8}  {'swallowed':>9}")
        for stage in self.stages:
            taken = f"{stage.taken:,}" if stage.number > 1 else "-"
            lines.append(
                f"{stage.number:>3}  {stage.title:<{wide}}  {taken:>9}  {stage.out:>9,}  {stage.kind:<7}"
                f"  {stage.seconds:>8.2f}  {stage.errors:>9,}"
            )
        for stage in self.stages:
            if stage.errors:
                lines.append(f"stage {stage.number}: {swallowed(stage)}")
            elif stage.logged:
                lines.append(f"stage {stage.number} logged {stage.logged:,} warnings, the first: {stage.first_log}")
        return "\n".join(line.rstrip() for line in lines)


def swallowed(stage: StageTrace) -> str:
    """Return ``3 errors swallowed, the first: ...`` with key and shard."""
    count = "1 error swallowed" if stage.errors == 1 else f"{stage.errors:,} errors swallowed, the first"
    return f"{count}: {stage.first_error}{where(stage.error_key, stage.error_shard)}"


def where(key: str, shard: str) -> str:
    """Return key and shard in brackets, nothing if neither is known."""
    parts = [f"key {key}" if key else "", f"shard {shard}" if shard else ""]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""
