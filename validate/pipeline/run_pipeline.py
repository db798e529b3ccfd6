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
from typing import IO, Literal, cast

import psutil

from wdsflow.engines.peer import Peer
from wdsflow.shards.scratch import scratch

from ..tracing.errors import own_line
from .load_pipeline import PipelineError
from .run_reports import (
    DATASET,
    MAIN,
    STACKS_SIGNAL,
    Fault,
    Limit,
    ProcessReport,
    ReportedStage,
    RunRequest,
    read_reports,
    read_steps,
)
from .user_process import IMPORT, how_it_ended, oom_kills

How = Literal["ended", "raised", "died", "hung", "time"]
# Seconds between two looks at a run.
_LOOK = 0.2
# Seconds that the function of the user may take.
_BUILD = 60.0
# Of the time limit, in which a pipeline that got its last input may end by itself.
_GRACE = 0.25
# Seconds that a process has to write its stacks.
_STACKS = 1.0
_FRAME = re.compile(r'  File "(.*)", line (\d+) in ')
_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)")


@dataclass
class ObservedRun:
    """What was observed of one run."""

    how: How = "ended"
    # Those that workers ran are added up.
    stages: list[ReportedStage] = field(default_factory=list)
    reports: list[ProcessReport] = field(default_factory=list)
    # What ended it; its stage is a number in ``stages``.
    fault: Fault | None = None
    # Seconds without any step, if it hung.
    idle: float = 0.0
    seconds: float = 0.0

    @property
    def limit(self) -> Limit:
        """Why its input ended; "" if it ended by itself."""
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
        cache = str(stack.enter_context(scratch("cache")))
        peer = Peer(
            # Not the user's cache.
            f"import os; os.environ['HF_DATASETS_CACHE'] = {cache!r}; "
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
        started, kills = time.monotonic(), oom_kills()
        how, idle = self._wait(request, patience)
        pid, line = self._hanging_line() if how == "hung" else (0, "")
        if how == "died":
            # With its own status.
            self.peer.ends_within(1.0)
        status = self.peer.close()
        run = ObservedRun(how, reports=read_reports(self.folder), idle=idle, seconds=time.monotonic() - started)
        run.stages = list(_added_up(run.reports))
        if how in ("hung", "died"):
            error = how_it_ended(status, self.log) if how == "died" else ""
            run.fault = self._last_step(run, pid, error, line)
        elif run.reports and run.reports[0].fault is not None:
            self._explain(run)
        if run.fault is not None and _was_killed(run) and oom_kills() > kills:
            run.fault = replace(run.fault, machine="it needs more memory than this machine has")
        return run

    def _wait(self, request: RunRequest, patience: float) -> tuple[How, float]:
        """Wait until the run ends or has to be ended; return how, and the seconds since its last step."""
        started = moved = time.monotonic()
        steps = -1
        while not wait([self.peer.line], _LOOK):
            now = time.monotonic()
            latest = sum(step.number for step in read_steps(self.folder))
            if latest != steps:
                steps, moved = latest, now
            idle, passed = now - moved, now - started
            if idle > min(patience, request.seconds / 2) and passed > min(patience, request.seconds):
                return "hung", idle
            if passed > request.seconds * (1 + _GRACE):
                return "time", idle
        try:
            error = self.peer.receive()
        except (OSError, EOFError):
            return "died", 0.0
        if error:
            raise PipelineError(str(error))
        return "ended", 0.0

    def _explain(self, run: ObservedRun) -> None:
        """Set the exception that ended a run; that of a worker says more than what torch made of it."""
        report = next(report for report in reversed(run.reports) if report.fault is not None)
        fault = cast("Fault", report.fault)
        run.how, run.fault = "raised", replace(fault, stage=_numbered(run, fault.stage, report.place))
        if worker := _WORKER.search(fault.error):
            run.how = "died"
            run.fault = self._last_step(run, int(worker[1].split(",")[0]), fault.error, fault.line)

    def _last_step(self, run: ObservedRun, pid: int, error: str, line: str) -> Fault:
        """Return where a process was; of 0, where the one was that made the last step of all."""
        steps = read_steps(self.folder)
        step = max([step for step in steps if step.pid == pid] or steps, key=lambda step: step.time)
        return Fault(_numbered(run, step.stage, step.place), error, line, step.key, step.shard, "")

    def _hanging_line(self) -> tuple[int, str]:
        """Return the process that waits in the code of the user, and the line: workers first. (0, "") if none does."""
        with contextlib.suppress(psutil.Error):
            alive = {child.pid for child in psutil.Process(self.peer.pid).children(recursive=True)}
            for path in sorted(self.folder.glob("*.stacks"), key=lambda path: path.name.startswith(MAIN)):
                pid = int(path.stem.rpartition("-")[2])
                if pid in alive and (line := _own_line_in(_stacks(path, pid))):
                    return pid, line
        return 0, ""


def _was_killed(run: ObservedRun) -> bool:
    """Return whether a process ended that may have been killed: the pipeline's own, a worker, or a program that it ran."""
    assert run.fault is not None
    return run.how == "died" or "SIGKILL" in run.fault.error


def _stacks(path: Path, pid: int) -> str:
    """Return the stacks of a process, which it writes at a signal, even while it holds Python's lock."""
    with contextlib.suppress(OSError):
        os.kill(pid, STACKS_SIGNAL)
    text, until = "", time.monotonic() + _STACKS
    while time.monotonic() < until:
        time.sleep(0.1)
        before, text = text, path.read_text("utf-8", "replace")
        if text and text == before:
            break
    return text


def _own_line_in(stacks: str) -> str:
    """Return the innermost line of the user's code in the stacks of a process; its main thread comes last."""
    for stack in reversed(stacks.split("\n\n")):
        for file, number in _FRAME.findall(stack):
            if line := own_line(_unescaped(file), int(number)):
                return line
    return ""


def _unescaped(text: str) -> str:
    """Return a text in which characters beyond ASCII were spelled as escapes."""
    try:
        return text.encode("ascii").decode("unicode_escape")
    except UnicodeError:
        # A path with a backslash of its own.
        return text


def _numbered(run: ObservedRun, stage: int, place: str) -> int:
    """Return the place of a stage of one process among all stages; -1 if it is none."""
    before = next((len(report.stages) for report in run.reports if report.place == DATASET), 0)
    return stage + before if place == MAIN and stage >= 0 else stage


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
            # It passes on what its workers batched.
            if stage.is_loader and not stage.batch and before.kind == "batch":
                stage.kind, stage.rows, stage.unclear = before.kind, before.rows, before.unclear
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
        first.keyed += each.keyed
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
