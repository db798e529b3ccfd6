"""The numbers of one run of the user's pipeline: what was read, what came out, and what was lost on the way."""

import os
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence

from ..verdicts.pipeline_run import Ending, PipelineRun
from .run_pipeline import ObservedRun
from .run_reports import MAIN, LostSamples, ReportedStage, RunRequest
from .sample_keys import SampleKeys

PASSES = 3  # times the samples of the shards, after which a pipeline that does not end is ended


class StageLoss(NamedTuple):
    """Samples that one stage left out in one way."""

    stage: ReportedStage
    loss: LostSamples | None  # None: without an exception, and not one by one
    samples: int


class Observation:
    """One run, with its numbers.

    Attributes:
        read: samples that entered, each as often as it did; None if the tars are read in code that has no stages.
        came: samples that came out, or elements if nothing shows how many samples these hold.
        repeated: of those that were read, or else came out, samples that had been there before; None if not visible.
        losses: of each stage.
        cut: samples that were in a buffer or a batch when a limit of the run ended it: neither lost nor out.
        never: samples of the shards that the pipeline did not read, although it ended by itself.
        total: samples of which the verdict speaks.
        usable: those of them that came out.
    """

    def __init__(
        self, evidence: Evidence, run: ObservedRun, request: RunRequest, keys: SampleKeys, opened: set[str]
    ) -> None:
        self.evidence, self.run, self.request, self.keys = evidence, run, request, keys
        self.stages = run.stages
        self.main = next((each for each in run.reports if each.place == MAIN), None)
        self.draws = any(each.draws_shards for each in run.reports)
        self.endless = any(each.repeats for each in run.reports)
        self.opened = opened | (keys.shards & set(request.urls))
        self.sees_shards = bool(self.opened) or any(_is_local(url) for url in request.urls)
        self.has_keys = self.main is not None and not self.main.without_key and keys.identify
        self.ended_by = self._ending()
        self.limited = self.ended_by in ("samples", "time", "passes")
        self.read = self._read()
        self.came = self._came()
        self.repeated = keys.repeated() if keys.entered or self.has_keys else None
        self.losses = [loss for stage in self.stages for loss in self._losses(stage)]
        self._came_once = keys.came_once() if self.has_keys else self.came
        self.cut = self._remaining() if self.limited else 0
        self.never = self._never()
        self.total, self.usable = self._share()

    def summary(self) -> PipelineRun:
        """Return the numbers for reports."""
        shards = len(self.keys.shards & self.opened) or len(self.opened)
        return PipelineRun(
            self.ended_by,
            self.read,
            self.came,
            self.repeated,
            shards if self.sees_shards else None,
            len(self.evidence.shards),
            tuple(self.stages),
        )

    def _ending(self) -> Ending:
        if self.run.how == "raised":
            return "exception"
        if self.run.how == "died":
            return "death"
        if self.run.how == "hung" or self.run.limit in ("empty-passes", "asks-ended-source"):
            return "hang"
        if self.run.how == "time" or self.run.limit == "time":
            return "time"
        if self.run.limit == "samples":
            return "passes" if self.request.samples == PASSES * self.evidence.samples else "samples"
        return "itself"

    def _read(self) -> int | None:
        if not self.stages or self.stages[0].kind not in ("shard", "member"):
            return None
        return next((stage.out for stage in self.stages if stage.kind == "sample"), 0)

    def _came(self) -> int:
        if self.has_keys:
            return len(self.keys.came)
        if not self.stages or self.stages[-1].kind != "batch":
            return self.stages[-1].out if self.stages else 0
        last = self.stages[-1]
        if not last.unclear:
            return last.rows
        # A later stage made something else of the batches: as many samples as there were before, batch by batch.
        for stage in reversed(self.stages):
            if stage.kind == "batch" and stage.rows and (not stage.unclear or stage.batch > 0):
                return stage.rows * last.out // max(1, stage.out)
        return last.out

    def _losses(self, stage: ReportedStage) -> list[StageLoss]:
        if stage.taken_kind == stage.kind == "batch":
            return self._lost_batches(stage)
        if stage.taken_kind != "sample" or stage.kind not in ("", "sample", "batch"):
            return []
        losses = [StageLoss(stage, loss, loss.count) for loss in stage.losses.values()]
        silent = stage.lost - sum(loss.samples for loss in losses)
        if self.limited and stage.batch > 1:
            processes = sum(each.place != MAIN for each in self.run.reports) or 1
            silent -= (stage.batch - 1) * processes  # a batch that was not full when reading ended
        if silent > 0 and stage.ended:  # otherwise they may still be in a buffer
            losses.append(StageLoss(stage, None, silent))
        return losses

    def _lost_batches(self, stage: ReportedStage) -> list[StageLoss]:
        before = self.stages[stage.number - 2]
        samples = 0 if stage.unclear or before.unclear or not stage.ended else before.rows - stage.rows
        only = list(stage.losses.values())
        return [StageLoss(stage, only[0] if len(only) == 1 else None, samples)] if samples > 0 else []

    def _never(self) -> int:
        if self.ended_by != "itself" or self.draws or self.read is None:
            return 0
        tracked = self.keys.entered.total() == self.read
        return max(0, self.evidence.samples - (len(self.keys.entered) if tracked else self.read))

    @property
    def stopped_early(self) -> ReportedStage | None:
        """The stage that ended although its input had not, such as ``slice``."""
        before = len(self.stages) - (len(self.main.stages) if self.main is not None else 0)
        for report in self.run.reports:
            if report.ended_first > 0:
                return self.stages[report.ended_first + (before if report is self.main else 0)]
        return None

    @property
    def unexplained(self) -> int:
        """Samples that entered a pipeline which ended by itself, and neither came out nor were lost by a stage."""
        if self.ended_by != "itself" or self.read is None or self.stopped_early or not self.stages[-1].ended:
            return 0
        return self._remaining()

    def _remaining(self) -> int:
        """Return how many of the samples that entered neither came out nor were lost by a stage."""
        lost = sum(loss.samples for loss in self.losses)
        return max(0, (self.read or 0) - self._came_once - lost)

    def _share(self) -> tuple[int, int]:
        """Return of how many samples the verdict speaks, and how many of them came out."""
        if self.read is not None:
            total = self.read + self.never
            return total, min(self._came_once, total)
        if self.ended_by == "itself":
            here = sum(shard.samples for shard in self.evidence.shards if shard.url in self.opened)
            most = here if self.sees_shards else self.evidence.samples
            again = 0 if self.has_keys else self.repeated or 0
            return self.evidence.samples, min(self._came_once - again, most)
        if self.has_keys and self.keys.in_order():
            return self.keys.until_last(), self._came_once
        return self.came, self.came


def _is_local(url: str) -> bool:
    return "://" not in url and not url.startswith("pipe:") and os.path.exists(url)
