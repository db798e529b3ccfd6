"""The verdict of one reader on shards, with its reasons.

A reader trains, loses, stalls, crashes, is refused or is not judged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from .pipeline_run import PipelineRun

# The reader that the user wrote.
PIPELINE = "pipeline"

Outcome = Literal["trains", "loses", "stalls", "crashes", "refused", "not judged"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why samples do not reach a batch: one slug of ``Fate.reason``, with how many."""

    slug: str
    # Samples; 0 if the reason is not about samples (such as a crash at the start).
    count: int
    # "3,000 of 3,000 samples have no txt field (they have: json, jpg)".
    message: str
    # Of the first one.
    shard: str | None = None
    key: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Funnel:
    """The samples left after each step of a reader's pipeline, in one pass over all shards."""

    members: int
    # As the reader forms them.
    samples: int
    # Have an image, and a caption or label, in the fields of the reader.
    complete: int
    decoded: int
    # Reach a batch.
    usable: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one reader on the shards."""

    reader: str
    title: str
    outcome: Outcome
    # Keys in the shards, plus samples that the reader splits off from a run of one key.
    samples: int
    usable: int
    reasons: tuple[Reason, ...]
    # None: of the user's own pipeline, of which ``run`` has the counts.
    funnel: Funnel | None
    # False if the level could not know (names, headers).
    exact: bool
    # Limits of the level, and assumptions.
    note: str = ""
    # Fate.reason -> samples, as the reader forms them.
    lost: Mapping[str, int] = field(default_factory=dict)
    # Readable shards from which no sample reaches a batch.
    barren: tuple[str, ...] = ()
    # The number of usable samples is a range from here on; None: not known, if not exact.
    least: int | None = None
    # Of the user's own pipeline.
    run: PipelineRun | None = None
    # Required by the reader in addition to an image: "caption" or "label".
    pairs_with: str = "caption"
    # The reader counts and reports what it leaves out.
    reports_losses: bool = False

    @property
    def word(self) -> str:
        """The outcome in a word: what was not wholly looked at may train."""
        if self.outcome == "trains" and not self.exact and self.run is None:
            return "may train"
        return self.outcome

    @property
    def reaches_batches(self) -> bool:
        """Whether usable samples reach a batch.

        They do not if a fault outside the samples ends the run or hangs it. True as well if no
        sample is usable, unless the run was refused.
        """
        if self.outcome == "refused":
            return False
        return not self.usable or self.outcome not in ("stalls", "crashes")

    def refused(self, reason: str) -> "Verdict":
        """Return the verdict on a run that does not start.

        ``reason`` concerns the whole run.
        """
        # If nothing is usable, the reason explains why.
        others = self.reasons if self.usable else ()
        return replace(self, outcome="refused", reasons=(Reason("refused", 0, reason), *others))
