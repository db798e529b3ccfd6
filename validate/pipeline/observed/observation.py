"""The numbers of one run of the user's pipeline: what was read, what came out, and what was lost on the way."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence

from ...verdicts.pipeline_run import Ending, PipelineRun
from ..meters.reported_stage import BLANK, COMBINED, LostSamples, ReportedStage
from ..reports.process_position import MAIN
from ..reports.process_report import ProcessReport
from ..run.run_pipeline import ObservedRun
from .output_content import OutputContent
from .sample_keys import SampleKeys


class StageLoss(NamedTuple):
    """Samples that one stage left out for one reason."""

    stage: ReportedStage
    # None: without an exception, and not one by one.
    loss: LostSamples | None
    samples: int


class _Judged(NamedTuple):
    """What the verdict is about, in samples."""

    total: int
    # Of these, as far as counts and keys show it.
    came_out: int


@dataclass(frozen=True)
class Observation:
    """One run, with its numbers. Each is computed from the reports and lists of the run, when it is first needed."""

    evidence: Evidence
    run: ObservedRun
    keys: SampleKeys
    content: OutputContent
    urls: tuple[str, ...]
    # Shards that were seen to be opened.
    listed_as_opened: set[str]
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
        for report in self.run.reports:
            if report.role == MAIN:
                return report
        return None

    @property
    def workers(self) -> int:
        """Processes of a loader that read its dataset."""
        return sum(report.role != MAIN for report in self.run.reports)

    # How it ended.

    @cached_property
    def ended_by(self) -> Ending:
        """What ended the run."""
        if self.run.end == "raised":
            return "exception"
        if self.run.end == "died":
            return "death"
        if self.run.end == "hung" or self.run.limit in ("empty-passes", "asks-ended-source"):
            return "hang"
        if self.run.end == "time" or self.run.limit == "time":
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
        return any(report.draws_shards for report in self.run.reports)

    @property
    def repeats(self) -> bool:
        """Whether it repeats as often as an epoch needs."""
        return any(report.repeats for report in self.run.reports)

    @property
    def never_ends(self) -> bool:
        """Whether its object says that it repeats without end."""
        return any(report.never_ends for report in self.run.reports)

    @cached_property
    def stopped_early(self) -> ReportedStage | None:
        """The stage that ended although its input had not, such as ``slice``."""
        for report in self.run.reports:
            index = report.stopped_early
            if index <= 0:
                continue
            if report is self.main:
                # Those of a loader's dataset come before them.
                index += len(self.stages) - len(report.stages)
            return self.stages[index]
        return None

    # What was read, and what came out.

    @cached_property
    def opened(self) -> set[str]:
        """The shards that were opened, as far as is visible."""
        return self.listed_as_opened | (self.keys.shards & set(self.urls))

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
        for stage in self.stages:
            if stage.kind == "sample":
                return stage.out
        return 0

    @property
    def read_until_the_limit(self) -> int:
        """What a limit of samples counts: samples that entered or, in code that has no stages, elements of its source."""
        if self.read is not None:
            return self.read
        source = self.stages[0]
        return max(source.out, source.rows) + source.blanks

    @cached_property
    def delivered(self) -> int:
        """Samples that came out, or elements if nothing shows how many samples these hold."""
        if self.has_keys:
            return len(self.keys.delivered)
        if not self.stages:
            return 0
        last = self.stages[-1]
        return last.rows if last.kind == "batch" and not last.unclear else last.out

    @cached_property
    def repeated(self) -> int | None:
        """Of those that were read, otherwise of those that came out, samples that had come before; None if not visible."""
        is_visible = self.keys.entered or self.keys.items or self.has_keys
        return self.keys.repeated() if is_visible else None

    @cached_property
    def _delivered_once(self) -> int:
        """Samples that came out, each as often as it entered at most, by themselves or within the elements of others."""
        delivered = self.keys.delivered_once() if self.has_keys else self.delivered
        return delivered + self.combined

    # What did not come out.

    @cached_property
    def losses(self) -> list[StageLoss]:
        """The losses of all stages."""
        return [loss for stage in self.stages for loss in self._losses_of(stage)]

    def _losses_of(self, stage: ReportedStage) -> list[StageLoss]:
        if stage.kind == "batch" and stage.input_kind == "batch":
            return self._lost_batches(stage)
        if stage.number == 1 and stage.blanks and self.read is None:
            return self._lost_by_source(stage)
        if stage.input_kind != "sample" or stage.kind not in ("", "sample", "batch"):
            return []
        losses = []
        for name, loss in stage.losses.items():
            if name != COMBINED:
                losses.append(StageLoss(stage, loss, loss.count))
        silent = stage.lost - stage.combined - sum(loss.samples for loss in losses)
        if self.limited and stage.batch > 1:
            # Each process had a batch that was not full when reading ended.
            silent -= (stage.batch - 1) * max(1, self.workers)
        # Before its end, they may still be in a buffer.
        if silent > 0 and stage.ended:
            losses.append(StageLoss(stage, None, silent))
        return losses

    def _lost_by_source(self, source: ReportedStage) -> list[StageLoss]:
        """Return what a source lost that gave blank elements. Its input is not visible: no more than is missing."""
        missing = self._judged.total - self._judged.came_out
        if missing <= 0:
            return []
        return [StageLoss(source, source.losses[BLANK], min(source.blanks, missing))]

    def _lost_batches(self, stage: ReportedStage) -> list[StageLoss]:
        before = self.stages[stage.number - 2]
        if stage.unclear or before.unclear or not stage.ended:
            return []
        samples = before.rows - stage.rows
        if samples <= 0:
            return []
        losses = list(stage.losses.values())
        # Of several losses it is not known how many samples each is.
        loss = losses[0] if len(losses) == 1 else None
        return [StageLoss(stage, loss, samples)]

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
        if (
            self.ended_by != "itself"
            or self.read is None
            or self.stopped_early
            or not self.stages[-1].ended
        ):
            return 0
        return self._unaccounted

    @cached_property
    def unread(self) -> int:
        """Samples of the shards that the pipeline did not read, although it ended by itself."""
        if self.ended_by != "itself" or self.draws or self.read is None:
            return 0
        all_have_keys = self.keys.entered.total() == self.read
        different = len(self.keys.entered) if all_have_keys else self.read
        return max(0, self.evidence.samples - different)

    # What the verdict is about.

    @property
    def total(self) -> int:
        """Samples that the verdict is about."""
        return self._judged.total

    @cached_property
    def usable(self) -> int:
        """Those of them that came out, at most: each element may be one, unless it repeats the content of others."""
        total, came_out = self._judged
        if self.read is None and self.ended_by != "itself" and not self.is_in_order:
            # All that is known is what came out.
            return came_out
        if self.content.replaced:
            return max(0, min(came_out, self.delivered + self.combined - self.content.replaced))
        if self.has_keys or came_out >= total:
            return came_out
        # An element may hold several samples, such as those of two datasets that are read side by
        # side.
        return min(total, max(came_out, self.content.proven()))

    @property
    def replaced(self) -> int:
        """Samples in whose place others came out again, of those that no stage has lost."""
        lost = sum(loss.samples for loss in self.losses)
        not_usable = self._judged.came_out - self.usable
        not_lost = self.total - self.usable - lost
        return max(0, min(not_usable, not_lost))

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
    def _judged(self) -> _Judged:
        if self.read is not None:
            total = self.read + self.unread
            return _Judged(total, min(self._delivered_once, total))
        if self.ended_by == "itself":
            return _Judged(self.evidence.samples, self._came_out_of_own_code())
        if self.is_in_order:
            return _Judged(self.keys.until_last(), self._delivered_once)
        return _Judged(self.delivered, self.delivered)

    def _came_out_of_own_code(self) -> int:
        """Return how many samples came out of code that has no stages, and ended by itself."""
        most = self.evidence.samples
        if self.sees_shards:
            most = sum(shard.samples for shard in self.evidence.shards if shard.url in self.opened)
        repeated = 0 if self.has_keys else self.repeated or 0
        return min(self._delivered_once - repeated, most)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether the samples that came out are known, and were read in the order of the shards."""
        return self.has_keys and self.keys.in_order()

    def summary(self) -> PipelineRun:
        """Return the numbers for reports."""
        shards = len(self.keys.shards & self.opened) or len(self.opened)
        return PipelineRun(
            ended_by=self.ended_by,
            read=self.read,
            delivered=self.delivered,
            repeated=self.repeated,
            shards=shards if self.sees_shards else None,
            of_shards=len(self.evidence.shards),
            stages=tuple(self.stages),
        )


def _is_local(url: str) -> bool:
    return "://" not in url and not url.startswith("pipe:") and os.path.exists(url)
