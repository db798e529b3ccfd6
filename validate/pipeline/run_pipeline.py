"""Runs the user's pipeline in a process of its own, for some samples or to its end, and returns what was observed."""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Literal

from wdsflow.engines.peer import Peer

from ..tracing.errors import own_line
from .load_pipeline import PipelineError
from .run_reports import (
    DATASET,
    MAIN,
    STACKS_SIGNAL,
    Fault,
    ProcessReport,
    ReportedStage,
    RunRequest,
    read_reports,
    read_steps,
)
from .user_process import IMPORT, how_it_ended

How = Literal["ended", "raised", "died", "hung", "time"]
_LOOK = 0.2  # seconds between two looks at a run
_BUILD = 60.0  # seconds that the function of the user may take
_GRACE = 0.25  # of the time limit, in which a pipeline that got its last input may end by itself
_STACKS = 1.0  # seconds that a process has to write its stacks
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)")


@dataclass
class ObservedRun:
    """What was observed of one run."""

    how: How = "ended"
    stages: list[ReportedStage] = field(default_factory=list)  # those that workers ran are added up
    reports: list[ProcessReport] = field(default_factory=list)
    fault: Fault | None = None  # what ended it; its stage is a number in ``stages``
    idle: float = 0.0  # seconds without any step, if it hung
    seconds: float = 0.0

    @property
    def limit(self) -> str:
        """Why its input ended: "samples", "time", ...; "" if it ended by itself."""
        return next((each.limit for each in reversed(self.reports) if each.limit), "")


def run_pipeline(spec: str, request: RunRequest, patience: float = 60.0) -> ObservedRun:
    """Run a pipeline, and kill all that it started.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``find`` and ``build``.
        request: shards and limits; its folder is an empty one.
        patience: seconds without any step after which it hangs, if there is no limit of time.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    folder = Path(request.folder)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="wdsflow-cache-", ignore_cleanup_errors=True))
        peer = Peer(
            f"import os; os.environ['HF_DATASETS_CACHE'] = {cache!r}; "  # not the user's cache
            f"from {__package__}.run_process import serve; serve({spec!r})",
            stderr=log,
        )
        stack.callback(peer.close)
        watch = _Watch(peer, folder, log)
        peer.send(request)
        watch.step(f"the import of {spec}", IMPORT)
        watch.step(f"{spec} cannot be built: building the pipeline", _BUILD)
        return watch.run(request, patience)


class _Watch:
    """Waits for the steps of a run, and ends one that takes too long."""

    def __init__(self, peer: Peer, folder: Path, log: IO[bytes]) -> None:
        self.peer, self.folder, self.log = peer, folder, log

    def step(self, name: str, seconds: float) -> None:
        """Wait for the end of a step before the run. Raises PipelineError if it fails or takes too long."""
        try:
            if wait([self.peer.line], seconds):
                if error := self.peer.receive():
                    raise PipelineError(str(error))
                return
        except (OSError, EOFError):
            self.peer.ends_within(1.0)
            raise PipelineError(f"{name} ended: {how_it_ended(self.peer.close(), self.log)}") from None
        _, line = self._hanging_line()
        self.peer.close()
        raise PipelineError(f"{name} took longer than {seconds:.0f} s{f' ({line})' if line else ''}")

    def run(self, request: RunRequest, patience: float) -> ObservedRun:
        """Wait for the end of the run, and return what was observed."""
        started = moved = time.monotonic()
        how: How = "time"
        moves = -1
        while True:
            if wait([self.peer.line], _LOOK):
                how = self._answered()
                break
            now = time.monotonic()
            if (latest := sum(step.number for step in read_steps(self.folder))) != moves:
                moves, moved = latest, now
            idle, passed = now - moved, now - started
            if idle > min(patience, request.seconds / 2) and passed > min(request.seconds, patience):
                how = "hung"
                break
            if passed > request.seconds * (1 + _GRACE):
                break
        hanging, line = self._hanging_line() if how == "hung" else (0, "")
        if how == "died":
            self.peer.ends_within(1.0)
        ended = how_it_ended(self.peer.close(), self.log) if how == "died" else ""
        if how != "died":
            self.peer.close()
        run = ObservedRun(how, seconds=time.monotonic() - started, idle=time.monotonic() - moved)
        run.reports = read_reports(self.folder)
        run.stages = list(_added_up(run.reports))
        if run.reports or how == "died":
            self._explain(run, hanging, line, ended)
        return run

    def _answered(self) -> How:
        try:
            if error := self.peer.receive():
                raise PipelineError(str(error))
        except (OSError, EOFError):
            return "died"
        return "ended"

    def _explain(self, run: ObservedRun, pid: int, line: str, ended: str) -> None:
        """Set the fault that ended a run, where it happened."""
        before = _stages_before_main(run.reports)
        faults = [(report, report.fault) for report in run.reports if report.fault is not None]
        if run.how == "ended" and faults:
            report, fault = faults[-1]  # that of a worker tells more than what torch made of it
            run.how, run.fault = "raised", replace(fault, stage=fault.stage + before * (report.place == MAIN))
            if worker := _WORKER.search(fault.error):
                pid, line, ended = int(worker[1].split(",")[0]), fault.line, fault.error
                run.how = "died"
        if run.how in ("hung", "died"):
            steps = read_steps(self.folder)
            step = max([step for step in steps if step.pid == pid] or steps, key=lambda step: step.time)
            stage = step.stage + before * (step.place == MAIN) if step.stage >= 0 else -1
            run.fault = Fault(stage, ended, line, step.key, step.shard, "")

    def _hanging_line(self) -> tuple[int, str]:
        """Return the process that waits in the code of the user, and the line: workers first. (0, "") if none does."""
        paths = sorted(self.folder.glob("*.stacks"), key=lambda path: path.name.startswith(MAIN))
        for path in paths:
            pid = int(path.stem.rpartition("-")[2])
            with contextlib.suppress(OSError):
                os.kill(pid, STACKS_SIGNAL)
            until = time.monotonic() + _STACKS
            while time.monotonic() < until and not (text := path.read_text("utf-8", "replace")).endswith(">\n"):
                time.sleep(0.05)
                if text and text == path.read_text("utf-8", "replace"):
                    break
            if line := _own_line_in(text):
                return pid, line
        return 0, ""


def _own_line_in(stacks: str) -> str:
    """Return the innermost line of the user's code in the stacks of a process; its main thread comes last."""
    for stack in reversed(stacks.split("\n\n")):
        for file, number, _ in _FRAME.findall(stack):
            if line := own_line(file.encode("ascii", "replace").decode("unicode_escape"), int(number)):
                return line
    return ""


def _stages_before_main(reports: Sequence[ProcessReport]) -> int:
    return next((len(report.stages) for report in reports if report.place == DATASET), 0)


def _added_up(reports: Sequence[ProcessReport]) -> Iterator[ReportedStage]:
    """Yield all stages, numbered: those of a loader's dataset, added up over its workers, then those of the pipeline."""
    workers = [report.stages for report in reports if report.place == DATASET]
    mains = [report.stages for report in reports if report.place == MAIN]
    before: ReportedStage | None = None
    for number, several in enumerate([*zip(*workers, strict=True), *zip(*mains, strict=True)], 1):
        stage = _sum(several)
        stage.number = number
        if before is not None:
            stage.taken, stage.taken_kind = before.out, before.kind
            if stage.is_loader and not stage.batch and before.kind == "batch":  # it passes on what its workers batched
                stage.kind, stage.rows, stage.unclear = before.kind, before.rows, before.unclear
        if stage.unclear and stage.batch > 0:
            stage.rows = min(stage.taken, stage.out * stage.batch)
        before = stage
        yield stage


def _sum(stages: Sequence[ReportedStage]) -> ReportedStage:
    first, *others = stages
    for each in others:
        first.out += each.out
        first.rows += each.rows
        first.seconds += each.seconds
        first.errors += each.errors
        first.logged += each.logged
        first.unclear += each.unclear
        first.again += each.again
        first.kind = first.kind or each.kind
        first.first_log = first.first_log or each.first_log
        first.ended_stream |= each.ended_stream
        first.ended &= each.ended
        for name, loss in each.losses.items():
            loss.count += first.losses[name].count if name in first.losses else 0
            first.losses[name] = replace(first.losses.get(name, loss), count=loss.count)
        for name, count in each.fields.items():
            first.fields[name] = first.fields.get(name, 0) + count
    return first
