"""What each process of a run reports several times a second.

A report has the counts of its stages, and why it ended.

The latest counts are in its position, in shared memory, which the process updates at each step.
"""

import os
import pickle
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tracing.trace_run import InputEnd
from ..meters.reported_stage import ReportedStage
from .process_position import MAIN, ProcessPosition, Role, position_path

_SUFFIX = ".report"

# Why the input of a run ended. "passes": the pipeline reads the shards again and again;
# "empty-passes": the same, without output; "": the shards ended.
Limit = InputEnd | Literal["passes", "empty-passes"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What ended a run before its end."""

    # Its index; -1: none of the stages.
    stage: int
    # The text of the exception; "" if there was none.
    error: str
    # Of the user's code; "" if unknown.
    line: str
    # Of the sample that the stage got; "" if unknown.
    key: str
    shard: str
    # A missing requirement of this machine, which caused it; "" if none.
    machine_fault: str


@dataclass
class ProcessReport:
    """The counts of one process."""

    role: Role
    pid: int
    stages: list[ReportedStage]
    # Its stage is an index in the process.
    fault: Fault | None
    limit: Limit
    # How often its source began.
    passes: int
    # The index of the stage that ended although its input had not; -1 if none.
    stage_ended_early: int
    # It draws shards with replacement.
    draws_shards: bool
    # It repeats as often as an epoch needs.
    repeats: bool
    # The object of the user says that it repeats without end.
    never_ends: bool
    # Elements that came out, in which no key of a sample is visible.
    without_key: int
    # Of these, elements that may hold several samples.
    possible_batches: int


def write_report(folder: Path, report: ProcessReport) -> None:
    """Replace the report of a process."""
    path = folder / f"{report.role}-{report.pid}{_SUFFIX}"
    partial = path.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(report))
    os.replace(partial, path)


def read_reports(folder: Path) -> list[ProcessReport]:
    """Return the report of each process, with its latest counts.

    That of the pipeline itself comes first.
    """
    reports: list[ProcessReport] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        report: ProcessReport = pickle.loads(path.read_bytes())  # noqa: S301 - of our own processes
        with closing(ProcessPosition(position_path(folder, report.role, report.pid))) as position:
            for index, stage in enumerate(report.stages):
                position.read_counts(index, stage)
        reports.append(report)
    return sorted(reports, key=lambda report: report.role != MAIN)
