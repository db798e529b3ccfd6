"""The numbers of one run of the user's pipeline: what was read, what came out, and what was lost on the way."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence

from ..verdicts.pipeline_run import Ending, PipelineRun
from .output_content import OutputContent
from .run_pipeline import ObservedRun
from .run_reports import BLANK, COMBINED, MAIN, LostSamples, ProcessReport, ReportedStage
from .sample_keys import SampleKeys


class StageLoss(NamedTuple):
    """Samples that one stage left out in one way."""

    stage: ReportedStage
    # None: without an exception, and not one by one.
    loss: LostSamples | None
    samples: int


@dataclass(frozen=True)
class Observation:
    """One run, with its numbers. Each is computed from what was noted, when it is first asked for."""

    evidence: Evidence
    run: ObservedRun
    keys: SampleKeys
    content: OutputContent
    urls: tuple[str, ...]
    # Shards.
    noted_as_opened: set[str]
    # Share of samples, 0 to 1.
    max_loss: float = 0.05
    # Columns of the output, see ``copies_run``.
    single_valued: frozenset[str] = frozenset()

    @property
    def stages(self) -> list[ReportedStage]:
        """All stages; those of a loader's dataset come first."""
        return self.run.stages

    @cached_property
    def main(self) -> ProcessReport | None:
        """The report of the process that runs the pipeline, not of a loader's worker."""
        return next((each for each in self.run.reports if each.place == MAIN), None)

    # How it ended.

    @cached_property
    def ended_by(self) -> Ending:
        """What ended the run."""
        if self.run.how == "raised":
            return "exception"
        if self.run.how == "died":
            return "death"
        if self.run.how == "hung" or self.run.limit in ("empty-passes", "asks-ended-source"):
            return "hang"
        if self.run.how == "time" or self.run.limit == "time":
            return "time"
        if self.run.limit == "samples":
            return "samples"
        return "passes" if self.run.limit == "passes" else "itself"

    @property
    def limited(self) -> bool:
        """Whether a limit of the run ended it: the rest was not read."""
        return self.ended_by in ("samples", "time", "passes")

    @property
    def draws(self) -> bool:
        """Whether it draws shards with replacement."""
        return any(each.draws_shards for each in self.run.reports)

    @property
    def repeats(self) -> bool:
        """Whether it repeats as often as an epoch needs."""
        return any(each.repeats for each in self.run.reports)

    @property
    def never_ends(self) -> bool:
        """Whether its object says that it repeats without end."""
        return any(each.never_ends for each in self.run.reports)

    @cached_property
    def stopped_early(self) -> ReportedStage | None:
        """The stage that ended although its input had not, such as ``slice``."""
        before = len(self.stages) - (len(self.main.stages) if self.main is not None else 0)
        for report in self.run.reports:
            if report.ended_first > 0:
                return self.stages[report.ended_first + (before if report is self.main else 0)]
        return None

    # What was read, and what came out.

    @cached_property
    def opened(self) -> set[str]:
        """The shards that were opened, as far as is visible."""
        return self.noted_as_opened | (self.keys.shards & set(self.urls))

    @cached_property
    def sees_shards(self) -> bool:
        """Whether it is visible which shards are opened."""
        return bool(self.opened) or any(_is_local(url) for url in self.urls)

    @cached_property
    def has_keys(self) -> bool:
        """Whether it is visible which samples came out, at least of those elements that have a key."""
        return self.main is not None and self.keys.identify

    @property
    def without_key(self) -> int:
        """Elements that came out, in which no key is visible, while others have one."""
        return self.main.without_key if self.main is not None and self.has_keys else 0

    @cached_property
    def read(self) -> int | None:
        """Samples that entered, each as often as it did; None if the tars are read in code that has no stages."""
        if not self.stages or self.stages[0].kind not in ("shard", "member"):
            return None
        return next((stage.out for stage in self.stages if stage.kind == "sample"), 0)

    @property
    def read_until_the_limit(self) -> int:
        """What a limit of samples counts: samples that entered or, in code that has no stages, elements of its source."""
        source = self.stages[0]
        return max(source.out, source.rows) + source.blanks if self.read is None else self.read

    @cached_property
    def delivered(self) -> int:
        """Samples that came out, or elements if nothing shows how many samples these hold."""
        if self.has_keys:
            return len(self.keys.delivered)
        if not self.stages or self.stages[-1].kind != "batch":
            return self.stages[-1].out if self.stages else 0
        last = self.stages[-1]
        return last.out if last.unclear else last.rows

    @cached_property
    def repeated(self) -> int | None:
        """Of those that were read, or else came out, samples that had been there before; None if not visible."""
        visible = self.keys.entered or self.keys.items or self.has_keys
        return self.keys.repeated() if visible else None

    @cached_property
    def _delivered_once(self) -> int:
        """Samples that came out, each as often as it entered at most, by themselves or within the elements of others."""
        return (self.keys.delivered_once() if self.has_keys else self.delivered) + self.combined

    # What did not come out.

    @cached_property
    def losses(self) -> list[StageLoss]:
        """The losses of all stages."""
        return [loss for stage in self.stages for loss in self._losses_of(stage)]

    def _losses_of(self, stage: ReportedStage) -> list[StageLoss]:
        if stage.taken_kind == stage.kind == "batch":
            return self._lost_batches(stage)
        # Its input is not visible: no more than is missing.
        if stage.number == 1 and stage.blanks and self.read is None:
            missing = max(0, self._share[0] - self._share[1])
            return [StageLoss(stage, stage.losses[BLANK], min(stage.blanks, missing))] if missing else []
        if stage.taken_kind != "sample" or stage.kind not in ("", "sample", "batch"):
            return []
        losses = [StageLoss(stage, loss, loss.count) for name, loss in stage.losses.items() if name != COMBINED]
        silent = stage.lost - stage.combined - sum(loss.samples for loss in losses)
        if self.limited and stage.batch > 1:
            processes = sum(each.place != MAIN for each in self.run.reports) or 1
            # A batch that was not full when reading ended.
            silent -= (stage.batch - 1) * processes
        # Otherwise they may still be in a buffer.
        if silent > 0 and stage.ended:
            losses.append(StageLoss(stage, None, silent))
        return losses

    def _lost_batches(self, stage: ReportedStage) -> list[StageLoss]:
        before = self.stages[stage.number - 2]
        samples = 0 if stage.unclear or before.unclear or not stage.ended else before.rows - stage.rows
        only = list(stage.losses.values())
        return [StageLoss(stage, only[0] if len(only) == 1 else None, samples)] if samples > 0 else []

    @cached_property
    def _unaccounted(self) -> int:
        """Samples that entered, and neither came out nor were lost by a stage."""
        lost = sum(loss.samples for loss in self.losses)
        return max(0, (self.read or 0) - self._delivered_once - lost)

    @property
    def in_buffers(self) -> int:
        """Samples that were in a buffer or a batch when a limit of the run ended it: neither lost nor out."""
        return self._unaccounted if self.limited else 0

    @property
    def unexplained(self) -> int:
        """Samples that entered a pipeline which ended by itself, and neither came out nor were lost by a stage."""
        if self.ended_by != "itself" or self.read is None or self.stopped_early or not self.stages[-1].ended:
            return 0
        return self._unaccounted

    @cached_property
    def unread(self) -> int:
        """Samples of the shards that the pipeline did not read, although it ended by itself."""
        if self.ended_by != "itself" or self.draws or self.read is None:
            return 0
        tracked = self.keys.entered.total() == self.read
        return max(0, self.evidence.samples - (len(self.keys.entered) if tracked else self.read))

    # What the verdict is about.

    @property
    def total(self) -> int:
        """Samples of which the verdict speaks."""
        return self._share[0]

    @cached_property
    def usable(self) -> int:
        """Those of them that came out, at most: each element may be one, unless it repeats the content of others."""
        total, count = self._share
        if self.read is None and self.ended_by != "itself" and not self.is_in_order:
            # All that is known is what came out.
            return count
        if not self.content.replaced:
            if self.has_keys or count >= total:
                return count
            # An element may hold several samples, such as those of two datasets that are read side by side.
            return min(total, max(count, self.content.proven()))
        return max(0, min(count, self.delivered + self.combined - self.content.replaced))

    @property
    def replaced(self) -> int:
        """Samples in whose place others came out again, of those that no stage has lost."""
        lost = sum(loss.samples for loss in self.losses)
        return max(0, min(self._share[1] - self.usable, self.total - self.usable - lost))

    @property
    def combined(self) -> int:
        """Samples that a stage put into the elements of others."""
        return sum(stage.combined for stage in self.stages)

    @property
    def is_followed(self) -> bool:
        """Whether it is visible which samples came out: by their keys, or because the code of all stages is known."""
        if self.combined:
            return False
        if self.has_keys and not self.without_key:
            return True
        return self.read is not None and all(stage.is_followed for stage in self.stages)

    @cached_property
    def is_doubtful(self) -> bool:
        """Whether the content of the output repeats more than that of the shards, although keys or stages do not show why."""
        return self.content.is_doubtful(self.max_loss)

    @cached_property
    def least(self) -> int:
        """Samples that certainly came out."""
        if self.content.is_at_least and not self.is_enough(self.usable):
            return 0
        if self.is_followed and not self.is_doubtful:
            return self.usable
        return min(self.usable, self.content.proven(self.single_valued))

    def is_enough(self, samples: int) -> bool:
        """Return whether no more than the accepted share is lost if so many samples came out."""
        total = self.total - self.in_buffers
        return samples > 0 and total - samples <= self.max_loss * total

    @cached_property
    def _share(self) -> tuple[int, int]:
        if self.read is not None:
            total = self.read + self.unread
            return total, min(self._delivered_once, total)
        if self.ended_by == "itself":
            here = sum(shard.samples for shard in self.evidence.shards if shard.url in self.opened)
            most = here if self.sees_shards else self.evidence.samples
            again = 0 if self.has_keys else self.repeated or 0
            return self.evidence.samples, min(self._delivered_once - again, most)
        if self.is_in_order:
            return self.keys.until_last(), self._delivered_once
        return self.delivered, self.delivered

    @cached_property
    def is_in_order(self) -> bool:
        """Whether the samples that came out are known, and were read in the order of the shards."""
        return self.has_keys and self.keys.in_order()

    def summary(self) -> PipelineRun:
        """Return the numbers for reports."""
        shards = len(self.keys.shards & self.opened) or len(self.opened)
        return PipelineRun(
            self.ended_by,
            self.read,
            self.delivered,
            self.repeated,
            shards if self.sees_shards else None,
            len(self.evidence.shards),
            tuple(self.stages),
        )


def _is_local(url: str) -> bool:
    return "://" not in url and not url.startswith("pipe:") and os.path.exists(url)
