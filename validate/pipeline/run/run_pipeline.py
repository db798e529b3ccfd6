"""Runs the user's pipeline in its own process, and returns what was observed.

It runs for some samples, or to its end.
"""

import contextlib
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO

from wdsflow.engines.peer import Peer
from wdsflow.shards.scratch import scratch

from ..reports.process_position import read_steps
from ..reports.process_report import Fault, ProcessReport, read_reports
from ..reports.process_stacks import hanging_line
from ..user_code.load_pipeline import PipelineError
from ..user_code.user_process import IMPORT, exit_text, oom_kills
from .observed_run import ObservedRun, RunEnd, all_stages, index_among_all
from .run_request import RunRequest

# Seconds between two looks at a run.
_PAUSE = 0.2
# Seconds that the function of the user may take.
_BUILD = 60.0
# Share of the time limit in which a pipeline that got its last input may end by itself.
_GRACE = 0.25
# Seconds that a process has to end with its own status after its line was closed.
_DEATH = 1.0
# The text of torch on a worker that died.
_DEAD_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)")


def run_pipeline(spec: str, request: RunRequest, patience: float = 60.0) -> ObservedRun:
    """Run a pipeline, and kill all that it started.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``load_object`` and ``build``.
        request: shards and limits; its folder is an empty one.
        patience: seconds without any step after which it hangs, if there is no limit of time.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        # Not the user's cache.
        cache = str(stack.enter_context(scratch("cache")))
        peer = Peer(
            f"import os; os.environ['HF_DATASETS_CACHE'] = {cache!r}; "
            f"from {__package__}.run_process import serve; serve({spec!r})",
            stderr=log,
        )
        stack.callback(peer.close)
        process = _RunningPipeline(peer, request, log)
        peer.send(request)
        process.wait_for_step(f"the import of {spec}", IMPORT)
        process.wait_for_step(f"{spec} cannot be built: building the pipeline", _BUILD)
        return process.observe(patience)


class _RunningPipeline:
    """Waits for the steps of a run, and ends one that takes too long."""

    def __init__(self, peer: Peer, request: RunRequest, log: IO[bytes]) -> None:
        self.peer = peer
        self.request = request
        self.folder = Path(request.folder)
        # Its standard error.
        self.log = log
        # Before the pipeline runs: it may die at once.
        self.kills_before = oom_kills()

    def wait_for_step(self, name: str, seconds: float) -> None:
        """Wait for the end of a step before the run.

        Raises PipelineError if the step fails or takes too long.
        """
        try:
            if wait([self.peer.line], seconds):
                error = self.peer.receive()
                if error:
                    raise PipelineError(str(error))
                return
        except (OSError, EOFError):
            self.peer.ends_within(_DEATH)
            raise PipelineError(f"{name} ended: {exit_text(self.peer.close(), self.log)}") from None
        _, line = hanging_line(self.folder, self.peer.pid)
        self.peer.close()
        at_line = f" ({line})" if line else ""
        raise PipelineError(f"{name} took longer than {seconds:.0f} s{at_line}")

    def observe(self, patience: float) -> ObservedRun:
        """Wait for the end of the run, and return what was observed."""
        started = time.monotonic()
        end, idle = self._wait(patience)
        hanging_pid, line = 0, ""
        if end == "hung":
            # The process has to be alive.
            hanging_pid, line = hanging_line(self.folder, self.peer.pid)
        if end == "died":
            self.peer.ends_within(_DEATH)
        exit_status = self.peer.close()
        reports = read_reports(self.folder)
        stages = all_stages(reports)
        seconds = time.monotonic() - started
        fault: Fault | None = None
        if end == "hung":
            fault = self._fault_at_last_step(reports, hanging_pid, "", line)
        elif end == "died":
            how = exit_text(exit_status, self.log)
            fault = self._fault_at_last_step(reports, 0, how, "")
        elif reports and reports[0].fault is not None:
            end, fault = self._exception(reports)
        if fault is not None and _may_be_killed(end, fault) and oom_kills() > self.kills_before:
            fault = replace(fault, machine_fault="it needs more memory than this machine has")
        return ObservedRun(end, stages, reports, fault, idle, seconds)

    def _wait(self, patience: float) -> tuple[RunEnd, float]:
        """Wait until the run ends or must be ended.

        Returns how it ended, and the seconds since its last step.
        """
        limit = self.request.seconds
        started = last_change = time.monotonic()
        steps = -1
        while not wait([self.peer.line], _PAUSE):
            now = time.monotonic()
            steps_now = sum(step.number for step in read_steps(self.folder))
            if steps_now != steps:
                steps = steps_now
                last_change = now
            idle = now - last_change
            if idle > min(patience, limit / 2) and now - started > min(patience, limit):
                return "hung", idle
            if now - started > limit * (1 + _GRACE):
                return "time", idle
        try:
            error = self.peer.receive()
        except (OSError, EOFError):
            return "died", 0.0
        if error:
            raise PipelineError(str(error))
        return "ended", 0.0

    def _exception(self, reports: Sequence[ProcessReport]) -> tuple[RunEnd, Fault]:
        """Return the exception that ended a run.

        That of a worker is preferred, because it is more informative than what torch makes of it.
        """
        # Those of workers come last.
        report = [report for report in reports if report.fault is not None][-1]
        fault = report.fault
        assert fault is not None
        dead_worker = _DEAD_WORKER.search(fault.error)
        if dead_worker is not None:
            pid = int(dead_worker[1].split(",")[0])
            return "died", self._fault_at_last_step(reports, pid, fault.error, fault.line)
        return "raised", replace(fault, stage=index_among_all(reports, fault.stage, report.role))

    def _fault_at_last_step(
        self, reports: Sequence[ProcessReport], pid: int, error: str, line: str
    ) -> Fault:
        """Return a fault at the last step of a process.

        With ``pid`` 0, or without a step of that process, it is the last step of all processes.
        """
        steps = list(read_steps(self.folder))
        of_process = [step for step in steps if step.pid == pid]
        step = max(of_process or steps, key=lambda step: step.time)
        stage = index_among_all(reports, step.stage, step.role)
        return Fault(stage, error, line, step.key, step.shard, "")


def _may_be_killed(end: RunEnd, fault: Fault) -> bool:
    """Return whether a process ended that may have been killed.

    It is the pipeline's own process, a worker, or a program that it ran.
    """
    return end == "died" or "SIGKILL" in fault.error
