"""What was observed of one run of the user's pipeline.

It is how the run ended, its stages, and what these show by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...verdicts.pipeline_run import Ending
from ..meters.reported_stage import ReportedStage
from ..reports.process_position import DATASET, MAIN, Role
from ..reports.process_report import Fault, Limit, ProcessReport

# "time": a limit of the run, which the pipeline did not keep by itself.
RunEnd = Literal["ended", "raised", "died", "hung", "time"]


@dataclass(frozen=True)
class ObservedRun:
    """One run that has ended."""

    end: RunEnd
    # Those of a loader's dataset, added up over its workers, then those of the pipeline.
    stages: list[ReportedStage]
    reports: list[ProcessReport]
    # What ended it; its stage is an index in ``stages``.
    fault: Fault | None
    # Seconds without any step, if it hung.
    idle: float
    seconds: float

    @property
    def main(self) -> ProcessReport | None:
        """The report of the process that runs the pipeline, not of a loader's worker."""
        for report in self.reports:
            if report.role == MAIN:
                return report
        return None

    @property
    def workers(self) -> int:
        """Processes of a loader that read its dataset."""
        return sum(report.role != MAIN for report in self.reports)

    # How it ended.

    @property
    def limit(self) -> Limit:
        """Why its input ended; "" if it ended by itself."""
        for report in reversed(self.reports):
            if report.limit:
                return report.limit
        return ""

    @property
    def ended_by(self) -> Ending:
        """What ended the run."""
        limit = self.limit
        if self.end == "raised":
            return "exception"
        if self.end == "died":
            return "death"
        if self.end == "hung" or limit in ("empty-passes", "asks-ended-source"):
            return "hang"
        if self.end == "time" or limit == "time":
            return "time"
        if limit == "samples":
            return "samples"
        return "passes" if limit == "passes" else "itself"

    @property
    def is_limited(self) -> bool:
        """Whether a limit of the run ended it: the rest was not read."""
        return self.ended_by in ("samples", "time", "passes")

    @property
    def stage_ended_early(self) -> ReportedStage | None:
        """The stage that ended although its input had not, such as ``slice``."""
        for report in self.reports:
            if report.stage_ended_early > 0:
                index = index_among_all(self.reports, report.stage_ended_early, report.role)
                return self.stages[index]
        return None

    # What it reads.

    @property
    def draws_shards(self) -> bool:
        """Whether it draws shards with replacement."""
        return any(report.draws_shards for report in self.reports)

    @property
    def repeats(self) -> bool:
        """Whether it repeats as often as an epoch needs."""
        return any(report.repeats for report in self.reports)

    @property
    def never_ends(self) -> bool:
        """Whether its object says that it repeats without end."""
        return any(report.never_ends for report in self.reports)

    @property
    def read(self) -> int | None:
        """The number of samples that entered, each as often as it did.

        It is None if the tars are read in code that has no stages.
        """
        if not self.stages or self.stages[0].kind not in ("shard", "member"):
            return None
        for stage in self.stages:
            if stage.kind == "sample":
                return stage.out
        return 0

    @property
    def read_until_the_limit(self) -> int:
        """The number that a limit of samples counts.

        It counts samples that entered or, in code that has no stages, elements of its source.
        """
        if self.read is not None:
            return self.read
        source = self.stages[0]
        return max(source.out, source.rows) + source.blanks

    # What it gives.

    @property
    def delivered(self) -> int:
        """Samples that came out, as far as stages show it, otherwise elements."""
        if not self.stages:
            return 0
        last = self.stages[-1]
        return last.rows if last.kind == "batch" and not last.unclear else last.out

    @property
    def combined(self) -> int:
        """Samples that a stage put into the elements of others."""
        return sum(stage.combined for stage in self.stages)


def all_stages(reports: Sequence[ProcessReport]) -> list[ReportedStage]:
    """Return all stages, numbered.

    Those of a loader's dataset come first, added up over its workers, then those of the pipeline.
    """
    stages = [*_summed_stages(reports, DATASET), *_summed_stages(reports, MAIN)]
    before: ReportedStage | None = None
    for number, stage in enumerate(stages, 1):
        stage.number = number
        if before is not None:
            stage.inputs = before.out
            stage.input_kind = before.kind
            if stage.is_loader and not stage.batch and before.kind == "batch":
                # It passes on what its workers batched.
                stage.kind = before.kind
                stage.rows = before.rows
                stage.unclear = before.unclear
        before = stage
    return stages


def index_among_all(reports: Sequence[ProcessReport], index: int, role: Role) -> int:
    """Return the index of a stage of one process among all stages; -1 if it is none."""
    if role == DATASET or index < 0:
        return index
    for report in reports:
        if report.role == DATASET:
            # Those of a loader's dataset come before them.
            return len(report.stages) + index
    return index


def _summed_stages(reports: Sequence[ProcessReport], role: Role) -> list[ReportedStage]:
    """Return the stages of the processes of one kind, with the sums of their counts."""
    total: list[ReportedStage] = []
    for report in reports:
        if report.role != role:
            continue
        if not total:
            total = report.stages
            continue
        for stage, other in zip(total, report.stages, strict=True):
            stage.add_counts(other)
    return total
